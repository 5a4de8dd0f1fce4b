#pragma once
// An independent transformer to compare with: fp64, the whole sequence at once, no cache, written
// from Hugging Face's modeling_llama / modeling_qwen3 and sharing nothing with src/ but the config.

#include <vector>

#include "model/tiny_model.h"

namespace neuronmm::model {

// logits[position][token]. Dense tensors only.
std::vector<std::vector<double>> naive_logits(const io::ModelConfig& config,
                                              const TestTensors& tensors,
                                              const std::vector<TokenId>& tokens);

// What every layer's MLP reads and makes, one row per position: its input, gate before silu, up,
// and the hidden state after the layer; and what its attention reads, the
// same mixed by the weights of head (position modulo their number), and the heads' outputs.
struct NaiveMlpRows {
  std::vector<std::vector<double>> input, gate, up, hidden, attention, mixed, heads;
};
std::vector<NaiveMlpRows> naive_mlp_rows(const io::ModelConfig& config, const TestTensors& tensors,
                                         const std::vector<TokenId>& tokens);

}  // namespace neuronmm::model
