#include "fit/model_bytes.h"

#include "io/quantization.h"
#include "model/tensor_specs.h"
#include "model/transformer.h"
#include "ops/low_bit.h"

namespace neuronmm::fit {
namespace {

constexpr int64_t kScaleBytes = 2, kNumberBytes = 4;  // of a bf16 scale and of a pivot's index

}  // namespace

ModelBytes::ModelBytes(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                       std::optional<int> embedding_bits)
    : config_(config), embedding_bits_(embedding_bits) {
  const std::string gate = model::tensor_prefix(checkpoint) + "layers.0.mlp.gate_proj.weight";
  const auto found = checkpoint.tensors().find(gate);
  if (found != checkpoint.tensors().end())
    element_bytes_ = dtype_size_bytes(written_dtype(found->second.dtype));
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (model::is_linear(name, config)) continue;
    const bool table = name.ends_with("embed_tokens.weight");
    (table ? table_ : fixed_) += static_cast<double>(tensor.size_bytes());
  }
}

double ModelBytes::matrix(int64_t rows, int64_t columns, size_t format) const {
  if (format == kAsIs) return static_cast<double>(rows * columns * element_bytes_);
  const LowBitFormat& spec = kCandidates[format];
  const int64_t scales = (columns + ops::kQuantGroup - 1) / ops::kQuantGroup * kScaleBytes;
  return static_cast<double>(
      rows * (ops::stored_row_bytes(spec, columns) + scales + ops::groups_of_row(spec, columns)));
}

double ModelBytes::table(size_t format) const {
  if (config_.tie_word_embeddings) return 0.0;
  return format == kAsIs ? table_ : matrix(config_.vocab_size, config_.hidden_size, format);
}

double ModelBytes::head(size_t format) const {
  return matrix(config_.vocab_size, config_.hidden_size, format);
}

double ModelBytes::attention(Part part, size_t format) const {
  const int64_t queries = config_.num_attention_heads * config_.head_dim;
  const int64_t keys = config_.num_key_value_heads * config_.head_dim;
  if (part == kAttentionOutput) return matrix(config_.hidden_size, queries, format);
  return matrix(part == kQueriesAndKeys ? queries + keys : keys, config_.hidden_size, format);
}

double ModelBytes::mlp(const io::MlpShape& shape, size_t gate, size_t down) const {
  const int64_t hidden = config_.hidden_size;
  const int64_t neurons = shape.neurons > 0 ? shape.neurons : config_.intermediate_size;
  const auto width = [&](int64_t own) {
    return shape.input > 0 ? shape.input : own > 0 ? own : hidden;
  };
  const int64_t out = shape.down > 0 ? shape.down : hidden;
  double bytes = matrix(neurons, width(shape.gate), gate) + matrix(neurons, width(shape.up), gate) +
                 matrix(out, neurons, down);
  const size_t map = gate == kAsIs ? kAsIs : 0;
  for (const int64_t rank : {shape.input, shape.gate, shape.up, shape.down}) {
    if (rank == 0) continue;
    bytes += matrix(rank, hidden - rank, map) + static_cast<double>(rank * kNumberBytes);
  }
  return bytes;
}

bool ModelBytes::allows_table(size_t format) const {
  if (format == kAsIs) return embedding_bits_ == io::kFloatFormat.bits;
  return !embedding_bits_ || *embedding_bits_ == kCandidates[format].bits;
}

std::vector<size_t> ModelBytes::head_formats(bool rounded) const {
  std::vector<size_t> formats;
  const bool tied = config_.tie_word_embeddings;
  for (size_t format = 0; rounded && format <= kAsIs; ++format) {
    if (tied ? allows_table(format) : format != kAsIs) formats.push_back(format);
  }
  if (!rounded) formats.push_back(kAsIs);
  return formats;
}

std::vector<size_t> ModelBytes::table_formats(bool rounded) const {
  std::vector<size_t> formats;
  const bool own = rounded && !config_.tie_word_embeddings;
  for (size_t format = 0; own && format < kFormats; ++format) {
    if (allows_table(format)) formats.push_back(format);
  }
  if (!own || !embedding_bits_ || allows_table(kAsIs)) formats.push_back(kAsIs);
  return formats;
}

}  // namespace neuronmm::fit
