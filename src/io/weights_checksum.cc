#include "io/weights_checksum.h"

#include <string_view>

#include <fmt/format.h>

#include "io/checksum.h"

namespace neuronmm::io {

std::string weights_checksum(const Checkpoint& checkpoint) {
  std::string all;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.data),
                                 static_cast<size_t>(tensor.size_bytes()));
    all += fmt::format("{} {} {} {}\n", name, type_name(tensor), shape_string(tensor.shape),
                       checksum(bytes));
    checkpoint.release_pages();
  }
  return checksum(all);
}

}  // namespace neuronmm::io
