#include "io/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace neuronmm::io {

std::string checksum(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace neuronmm::io
