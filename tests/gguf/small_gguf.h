#pragma once
// A GGUF file of a random model of one layer, and the weights that its folder must have. The tests
// of imports use it.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gguf/gguf_builder.h"

namespace neuronmm::gguf {

using io::GgufBuilder;

inline constexpr uint64_t kHidden = 8, kHeads = 4, kKvHeads = 2, kHeadDim = 4, kFfn = 6, kVocab = 5;

// A file with one layer of fp32 tensors, and the values that the folder must have.
class SmallModel {
 public:
  explicit SmallModel(const std::string& architecture = "llama", bool biases = false)
      : architecture_(architecture) {
    const std::string prefix = architecture + ".";
    builder.text("general.architecture", architecture).u32(prefix + "context_length", 32);
    builder.u32(prefix + "embedding_length", kHidden).u32(prefix + "block_count", 1);
    builder.u32(prefix + "feed_forward_length", kFfn).u32(prefix + "attention.head_count", kHeads);
    builder.u32(prefix + "attention.head_count_kv", kKvHeads);
    builder.u32(prefix + "attention.key_length", kHeadDim);
    builder.f32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
    const std::string layer = "model.layers.0.", attention = layer + "self_attn.";
    add("token_embd.weight", "model.embed_tokens.weight", kVocab, kHidden);
    add("blk.0.attn_norm.weight", layer + "input_layernorm.weight", 1, kHidden);
    add("blk.0.attn_q.weight", attention + "q_proj.weight", kHeads * kHeadDim, kHidden, kHeads);
    add("blk.0.attn_k.weight", attention + "k_proj.weight", kKvHeads * kHeadDim, kHidden, kKvHeads);
    add("blk.0.attn_v.weight", attention + "v_proj.weight", kKvHeads * kHeadDim, kHidden);
    if (biases) {
      add("blk.0.attn_q.bias", attention + "q_proj.bias", 1, kHeads * kHeadDim, kHeads);
      add("blk.0.attn_k.bias", attention + "k_proj.bias", 1, kKvHeads * kHeadDim, kKvHeads);
      add("blk.0.attn_v.bias", attention + "v_proj.bias", 1, kKvHeads * kHeadDim);
    }
    if (architecture == "qwen3") {
      add("blk.0.attn_q_norm.weight", attention + "q_norm.weight", 1, kHeadDim);
      add("blk.0.attn_k_norm.weight", attention + "k_norm.weight", 1, kHeadDim);
    }
    add("blk.0.attn_output.weight", attention + "o_proj.weight", kHidden, kHeads * kHeadDim);
    add("blk.0.ffn_norm.weight", layer + "post_attention_layernorm.weight", 1, kHidden);
    add("blk.0.ffn_gate.weight", layer + "mlp.gate_proj.weight", kFfn, kHidden);
    add("blk.0.ffn_up.weight", layer + "mlp.up_proj.weight", kFfn, kHidden);
    add("blk.0.ffn_down.weight", layer + "mlp.down_proj.weight", kHidden, kFfn);
    add("output_norm.weight", "model.norm.weight", 1, kHidden);
  }

  // Adds an LM head.
  SmallModel& add_head(const std::vector<float>& values) {
    builder.tensor("output.weight", {kHidden, kVocab}, values);
    return *this;
  }

  GgufBuilder builder;
  std::map<std::string, std::vector<float>> expected;  // The weights by their names in the folder.

 private:
  // Adds a tensor. A single row makes it a vector. `heads` is set for q and k of llama, whose rows
  // change places: row 2 i + j of a head in the file is row j * half + i in the folder.
  void add(const std::string& name, const std::string& folder_name, uint64_t rows, uint64_t columns,
           uint64_t heads = 0) {
    std::vector<float> original(rows * columns);
    for (float& value : original) value = std::normal_distribution<float>()(random_);
    std::vector<float> stored = original;
    if (heads != 0 && architecture_ == "llama") {
      const uint64_t width = rows == 1 ? 1 : columns, head_rows = rows * columns / width / heads;
      for (uint64_t head = 0; head < heads; ++head) {
        for (uint64_t i = 0; i < head_rows / 2; ++i) {
          for (uint64_t j = 0; j < 2; ++j) {
            const uint64_t from = head * head_rows + j * head_rows / 2 + i;
            const uint64_t to = head * head_rows + 2 * i + j;
            std::copy_n(&original[from * width], width, &stored[to * width]);
          }
        }
      }
    }
    const std::vector<uint64_t> extents =
        rows == 1 ? std::vector<uint64_t>{columns} : std::vector<uint64_t>{columns, rows};
    builder.tensor(name, extents, stored);
    expected[folder_name] = original;
  }

  std::string architecture_;
  std::mt19937 random_{7};
};

}  // namespace neuronmm::gguf
