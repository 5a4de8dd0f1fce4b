#include "io/weights_checksum.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/coded_values.h"
#include "io/checksum.h"

namespace neuronmm::io {
namespace {

std::string checksum_of_bytes(const TensorView& tensor) {
  return checksum(
      {reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.size_bytes())});
}

// The bytes of coded values are nowhere in memory, so the rows are decoded one by one.
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
    all += fmt::format(
        "{} {} {} {}\n", name, type_name(tensor), shape_string(tensor.shape),
        coded_values(tensor) != nullptr ? checksum_of_values(tensor) : checksum_of_bytes(tensor));
    checkpoint.release_pages();
  }
  return checksum(all);
}

}  // namespace neuronmm::io
