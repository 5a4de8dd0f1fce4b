#include "io/weights_checksum.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "io/checksum.h"

namespace neuronmm::io {

std::string weights_checksum(const Checkpoint& checkpoint) {
  std::string all;
  for (const auto& [name, any] : checkpoint.tensors()) {
    std::vector<float> storage;
    const TensorView tensor = in_memory(any, storage);
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.data),
                                 static_cast<size_t>(tensor.size_bytes()));
    all += fmt::format("{} {} {} {}\n", name, dtype_name(tensor.dtype), shape_string(tensor.shape),
                       checksum(bytes));
    checkpoint.release_pages();
  }
  return checksum(all);
}

}  // namespace neuronmm::io
