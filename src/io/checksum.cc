#include "io/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace neuronmm::io {

// XXH3 finds damage and not forgery: what it protects is the user's own file.
std::string checksum(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace neuronmm::io
