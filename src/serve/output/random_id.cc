#include "serve/output/random_id.h"

namespace neuronmm::serve {

std::string random_id(std::string_view prefix, size_t length, std::mt19937_64& random) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id(prefix);
  for (size_t i = 0; i < length; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace neuronmm::serve
