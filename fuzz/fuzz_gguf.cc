// Reads any bytes as a GGUF file. The result must be an error, or metadata and tensors that are
// inside the bytes. Then the file is opened as a model folder, its texts are made, and the first
// and the last value of every tensor are read.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gguf/dequantize.h"
#include "gguf/gguf_file.h"
#include "gguf/mounted_gguf.h"

namespace {

using neuronmm::io::GgufFile;
using neuronmm::io::GgufTensor;

void check_tensor(const GgufTensor& tensor, std::span<const std::byte> bytes) {
  NMM_CHECK(tensor.data.data() >= bytes.data());
  NMM_CHECK(tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
  NMM_CHECK(tensor.rows() * tensor.row_bytes() == static_cast<int64_t>(tensor.data.size()));
  if (!neuronmm::gguf::can_dequantize(*tensor.type)) return;
  std::vector<float> row(static_cast<size_t>(tensor.columns()));
  neuronmm::gguf::dequantize(*tensor.type, tensor.data.data(), tensor.columns(), row.data());
}

void check_model(const neuronmm::io::MountedModel& model) {
  for (const std::string& name : model.texts()) {
    const auto text = model.text(name);
    NMM_CHECK(!text.ok() || !text->empty());
  }
  if (!model.weights().ok()) return;
  for (const auto& [name, tensor] : model.tensors()) {
    float value = 0;
    neuronmm::to_floats(tensor, 0, 1, &value);
    neuronmm::to_floats(tensor, tensor.size() - 1, 1, &value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = GgufFile::parse(bytes, "input");
  if (!file.ok()) {
    NMM_CHECK(file.error().message.starts_with("input: "));
    return 0;
  }
  uint64_t total = 0;
  for (const GgufTensor& tensor : file->tensors()) {
    check_tensor(tensor, bytes);
    total += tensor.data.size();
  }
  NMM_CHECK(total <= size);  // no byte belongs to two tensors
  const auto model = neuronmm::gguf::mount_bytes(bytes, "input");
  NMM_CHECK(model.ok());
  check_model(**model);
  return 0;
}
