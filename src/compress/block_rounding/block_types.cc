#include "compress/block_rounding/block_types.h"

#include <charconv>
#include <string_view>

#include "model/tensor_specs.h"

namespace neuronmm::compress {
namespace {

using gguf_out::BlockType;

// Heads per key-value head from which llama-quantize gives `v` more bits with IQ4_NL (documented:
// llama_tensor_get_type_impl in llama-quant.cpp, as are all choices here).
constexpr int64_t kManyHeadsPerPair = 4;
// Layers of a model that llama.cpp calls "70B".
constexpr int64_t kLayersOf70B = 80;

bool is_floats(BlockType type) {
  return type == BlockType::kF32 || type == BlockType::kF16 || type == BlockType::kBf16;
}

// Returns the number after "layers.", or -1.
int64_t layer_of(std::string_view tensor) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = tensor.find(kLayers);
  int64_t layer = -1;
  if (at != std::string_view::npos) {
    std::from_chars(tensor.data() + at + kLayers.size(), tensor.data() + tensor.size(), layer);
  }
  return layer;
}

// Returns whether a layer is one of those whose v and down get more bits.
bool gets_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

BlockType head_type(BlockType named, int64_t columns) {
  if (named == BlockType::kQ8_0 || !gguf_out::fits_row(named, columns)) return BlockType::kQ8_0;
  return BlockType::kQ6_K;
}

BlockType v_type(BlockType named, int64_t layer, const io::ModelConfig& config) {
  const int64_t layers = config.num_hidden_layers;
  const int64_t shared = config.num_attention_heads / config.num_key_value_heads;
  BlockType type = named;
  if (named == BlockType::kIq4Nl && shared >= kManyHeadsPerPair) type = BlockType::kQ5_K;
  if (named == BlockType::kQ4_K || named == BlockType::kQ5_K) {
    if (gets_more_bits(layer, layers)) type = BlockType::kQ6_K;
  }
  return type == BlockType::kQ4_K && layers == kLayersOf70B ? BlockType::kQ5_K : type;
}

BlockType down_type(BlockType named, int64_t layer, int64_t layers) {
  const bool early = layer < layers / 8;
  if (named == BlockType::kQ4_0 && early) return BlockType::kQ4_1;
  if (named == BlockType::kQ5_0 && early) return BlockType::kQ5_1;
  if (named == BlockType::kQ4_K || named == BlockType::kQ5_K) {
    if (gets_more_bits(layer, layers)) return BlockType::kQ6_K;
  }
  return named;
}

// Returns the type of a matrix before its row length counts.
BlockType wanted_type(const io::TensorSpec& tensor, const io::ModelConfig& config,
                      BlockType named) {
  if (is_floats(named)) return named;
  const std::string_view name = tensor.name;
  const bool table = name.ends_with("embed_tokens.weight");
  if (name.ends_with("lm_head.weight") || (table && config.tie_word_embeddings))
    return head_type(named, tensor.shape.back());
  const int64_t layer = layer_of(name);
  if (name.ends_with("v_proj.weight") && name.find("self_attn") != std::string_view::npos)
    return v_type(named, layer, config);
  if (name.ends_with("down_proj.weight")) return down_type(named, layer, config.num_hidden_layers);
  return named;
}

}  // namespace

BlockType type_for_row(BlockType wanted, int64_t columns) {
  if (gguf_out::fits_row(wanted, columns)) return wanted;
  BlockType other = BlockType::kF16;
  if (wanted == BlockType::kQ4_K) other = BlockType::kQ5_0;
  if (wanted == BlockType::kQ5_K) other = BlockType::kQ5_1;
  if (wanted == BlockType::kQ6_K) other = BlockType::kQ8_0;
  return gguf_out::fits_row(other, columns) ? other : BlockType::kF16;
}

ChosenTypes choose_types(const std::vector<io::TensorSpec>& tensors, const io::ModelConfig& config,
                         BlockType named) {
  ChosenTypes chosen;
  for (const io::TensorSpec& tensor : tensors) {
    if (tensor.shape.size() < 2 || model::is_norm(tensor.name)) {
      chosen.types[tensor.name] = BlockType::kF32;
      continue;
    }
    const BlockType wanted = wanted_type(tensor, config, named);
    const BlockType taken = type_for_row(wanted, tensor.shape.back());
    chosen.types[tensor.name] = taken;
    if (taken != wanted) chosen.others.push_back({tensor.name, wanted, taken});
  }
  return chosen;
}

}  // namespace neuronmm::compress
