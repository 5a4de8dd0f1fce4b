// Reads any bytes as a GGUF file. The result must be an error, or metadata and tensors that are
// inside the bytes. Then the tokenizer files of its vocabulary are made.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gguf/dequantize.h"
#include "gguf/gguf_file.h"
#include "gguf/tokenizer_files.h"
#include "gguf/vocabulary.h"

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
  const auto vocabulary = neuronmm::gguf::read_vocabulary(file->metadata());
  if (!vocabulary.ok() || !vocabulary->has_value()) return 0;
  NMM_CHECK(!neuronmm::gguf::tokenizer_json(**vocabulary).empty());
  NMM_CHECK(!neuronmm::gguf::tokenizer_config_json(**vocabulary).empty());
  return 0;
}
