// Reads any bytes as a quantization_config, a byte of zero, and a safetensors file. The result must
// be an error, or matrices of which every value can be read.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "io/foreign_weights.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace neuronmm;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), all.size());
  const auto entry = io::parse_json_object(all.substr(0, end), "input");
  if (!entry.ok()) return 0;
  const auto quantization = io::parse_foreign_quantization(io::JsonFields(*entry, "input"));
  if (!quantization.ok()) {
    NMM_CHECK(quantization.error().message.starts_with("input"));
    return 0;
  }
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(std::min(size, end + 1));
  const auto file = io::SafetensorsFile::parse(bytes, "input");
  if (!file.ok()) return 0;
  io::Tensors tensors = file->tensors();
  const auto weights = io::decode_foreign(*quantization, "input", tensors);
  if (!weights.ok()) {
    NMM_CHECK(weights.error().message.starts_with("input"));
    return 0;
  }
  std::vector<float> row;
  for (const auto& matrix : weights->matrices) {
    const TensorView view = matrix->view();
    row.resize(static_cast<size_t>(view.columns()));
    for (int64_t i = 0; i < view.rows(); ++i) {
      to_floats(view, i * view.columns(), view.columns(), row.data());
    }
  }
  return 0;
}
