#include "io/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace neuronmm::io {

// XXH3 detects damage but not forgery, which is enough for the user's own files.
std::string checksum(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace neuronmm::io
