// Reads any bytes as a safetensors file. The result must be an error, or tensors that are inside
// the bytes.

#include <cstddef>
#include <cstdint>

#include "io/safetensors.h"

namespace {

using neuronmm::TensorView;

void check_inside(const TensorView& tensor, std::span<const std::byte> bytes) {
  const int64_t size = tensor.size_bytes();
  NMM_CHECK(size >= 0 && tensor.data >= bytes.data());
  NMM_CHECK(size <= bytes.data() + bytes.size() - tensor.data);
  if (!neuronmm::is_float(tensor.dtype)) return;
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  neuronmm::to_floats(tensor, 0, tensor.size(), values.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = neuronmm::io::SafetensorsFile::parse(bytes, "input");
  if (!file.ok()) {
    NMM_CHECK(file.error().message.starts_with("input: "));
    return 0;
  }
  int64_t total = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    check_inside(tensor, bytes);
    total += tensor.size_bytes();
  }
  NMM_CHECK(total <= static_cast<int64_t>(size));  // no byte belongs to two tensors
  return 0;
}
