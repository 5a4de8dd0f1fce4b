#pragma once
// An independent transformer that tests compare with. It computes in fp64, the whole sequence at
// once and without a cache. It was written from Hugging Face's modeling_llama / modeling_qwen3 and
// shares nothing with src/ except the config.

#include <vector>

#include "model/tiny_model.h"

namespace neuronmm::model {

// Returns logits[position][token]. Only for dense tensors.
std::vector<std::vector<double>> naive_logits(const io::ModelConfig& config,
                                              const TestTensors& tensors,
                                              const std::vector<TokenId>& tokens);

// The values around one layer's MLP, one row per position. `input`, `gate` (before silu) and `up`
// are the MLP's; `hidden` is the hidden state after the layer. `attention` is the attention's
// input. `mixed` is the same rows mixed by the attention weights of one head: head number position
// modulo the number of heads. `heads` are the heads' outputs.
struct NaiveMlpRows {
  std::vector<std::vector<double>> input, gate, up, hidden, attention, mixed, heads;
};
std::vector<NaiveMlpRows> naive_mlp_rows(const io::ModelConfig& config, const TestTensors& tensors,
                                         const std::vector<TokenId>& tokens);

}  // namespace neuronmm::model
