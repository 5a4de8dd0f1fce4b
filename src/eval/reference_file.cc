#include "eval/reference_file.h"

#include <cstring>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

std::string ids_name(size_t sequence) { return fmt::format("sequences.{}", sequence); }
std::string logits_name(size_t sequence) { return fmt::format("logits.{}", sequence); }

template <typename Integer>
int64_t integer_at(const TensorView& tensor, int64_t index) {
  Integer value = 0;
  std::memcpy(&value, tensor.data + index * static_cast<int64_t>(sizeof(Integer)), sizeof(Integer));
  return value;
}

Result<std::vector<TokenId>> read_ids(const TensorView& tensor, const std::string& where,
                                      const io::ModelConfig& config) {
  const bool wide = tensor.dtype == DType::kI64;
  if ((!wide && tensor.dtype != DType::kI32) || tensor.shape.size() != 1 || tensor.shape[0] == 0) {
    return fail("{}: expected token ids, I64 or I32 [tokens], found {} {}", where,
                dtype_name(tensor.dtype), shape_string(tensor.shape));
  }
  if (tensor.size() > config.max_position_embeddings) {
    return fail("{}: expected at most {} tokens (the model's max_position_embeddings), found {}",
                where, config.max_position_embeddings, tensor.size());
  }
  std::vector<TokenId> ids;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const int64_t id = wide ? integer_at<int64_t>(tensor, i) : integer_at<int32_t>(tensor, i);
    if (id < 0 || id >= config.vocab_size) {
      return fail("{}: expected token ids below the model's vocab_size {}, found {} at {}", where,
                  config.vocab_size, id, i);
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

Result<Matrix> read_logits(const TensorView& tensor, const std::string& where, int64_t tokens,
                           int64_t vocab_size) {
  const bool fits = is_float(tensor.dtype) && tensor.shape.size() == 2 && tensor.rows() >= 1 &&
                    tensor.rows() <= tokens && tensor.columns() == vocab_size;
  if (!fits) {
    return fail(
        "{}: expected a float dtype and shape [1 to {} (its tokens), {} (the model's "
        "vocab_size)], found {} {}",
        where, tokens, vocab_size, dtype_name(tensor.dtype), shape_string(tensor.shape));
  }
  Matrix logits(tensor.rows(), tensor.columns());
  to_floats(tensor, 0, tensor.size(), logits.data());
  return logits;
}

Result<ReferenceLogits> read_safetensors(const std::filesystem::path& path,
                                         const io::ModelConfig& config) {
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
  const auto& tensors = file.tensors();
  ReferenceLogits reference;
  for (size_t i = 0; tensors.contains(ids_name(i)); ++i) {
    const auto where = [&](const std::string& name) { return path.string() + ": " + name; };
    ReferenceSequence& sequence = reference.emplace_back();
    NMM_ASSIGN(sequence.tokens, read_ids(tensors.at(ids_name(i)), where(ids_name(i)), config));
    const auto logits = tensors.find(logits_name(i));
    if (logits == tensors.end()) {
      return fail("{}: expected the logits of {}, found no such tensor", where(logits_name(i)),
                  ids_name(i));
    }
    const int64_t tokens = std::ssize(sequence.tokens);
    NMM_ASSIGN(sequence.logits,
               read_logits(logits->second, where(logits_name(i)), tokens, config.vocab_size));
    sequence.first_position = tokens - sequence.logits.rows();
    file.release_pages();
  }
  if (reference.empty()) {
    return fail("{}: expected reference logits, found no tensor {}", path.string(), ids_name(0));
  }
  return reference;
}

}  // namespace

Result<ReferenceLogits> read_reference_logits(const std::filesystem::path& path,
                                              const io::ModelConfig& config) {
  if (path.extension() == ".safetensors") return read_safetensors(path, config);
  NMM_ASSIGN(const std::string text, io::read_text_file(path, io::kMaxTextBytes));
  return parse_reference_logits(text, path.string(), config);
}

Status write_reference_logits(const std::filesystem::path& path, const ReferenceLogits& reference) {
  std::vector<io::TensorSpec> specs;
  for (size_t i = 0; i < reference.size(); ++i) {
    const ReferenceSequence& sequence = reference[i];
    specs.push_back({ids_name(i), DType::kI64, {std::ssize(sequence.tokens)}});
    specs.push_back(
        {logits_name(i), DType::kF32, {sequence.logits.rows(), sequence.logits.columns()}});
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create(path, specs));
  for (const ReferenceSequence& sequence : reference) {
    const std::vector<int64_t> ids(sequence.tokens.begin(), sequence.tokens.end());
    NMM_TRY(writer.append(std::as_bytes(std::span(ids))));
    const auto count = static_cast<size_t>(sequence.logits.rows() * sequence.logits.columns());
    NMM_TRY(writer.append(std::as_bytes(std::span(sequence.logits.data(), count))));
  }
  return writer.finish();
}

}  // namespace neuronmm::eval
