#include "io/weights_checksum.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/coded_values.h"
#include "io/checksum.h"
#include "io/merged_tensor.h"

namespace neuronmm::io {
namespace {

std::string checksum_of_bytes(const TensorView& tensor) {
  return checksum(
      {reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.size_bytes())});
}

// Values without bytes in memory are computed row by row.
std::string checksum_of_values(const TensorView& tensor) {
  std::string of_rows;
  std::vector<float> row(static_cast<size_t>(tensor.columns()));
  for (int64_t i = 0; i < tensor.rows(); ++i) {
    to_floats(tensor, i * tensor.columns(), tensor.columns(), row.data());
    of_rows += checksum({reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)});
  }
  return checksum(of_rows);
}

}  // namespace

std::string weights_checksum(const Checkpoint& checkpoint) {
  std::string all;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const bool in_memory = coded_values(tensor) == nullptr && merged_tensor(tensor) == nullptr;
    all += fmt::format("{} {} {} {}\n", name, type_name(tensor), shape_string(tensor.shape),
                       in_memory ? checksum_of_bytes(tensor) : checksum_of_values(tensor));
    checkpoint.release_pages();
  }
  return checksum(all);
}

}  // namespace neuronmm::io
