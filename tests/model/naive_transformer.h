#pragma once
// An independent transformer that tests compare with. It computes in fp64, the whole sequence at
// once and without a cache. It was written from Hugging Face's modeling_llama and modeling_qwen3,
// with the switches from modeling_gemma2, modeling_granite, modeling_olmo2, modeling_phi3,
// modeling_hunyuan_v1_dense and modeling_ministral3, and shares nothing with src/ except the
// config.

#include <vector>

#include "model/tiny_model.h"

namespace neuronmm::model {

// Returns logits[position][token]. Only for float tensors.
std::vector<std::vector<double>> naive_logits(const io::ModelConfig& config,
                                              const TestTensors& tensors,
                                              const std::vector<TokenId>& tokens);

// The values inside one layer, one row per position:
// - input, gate (before its activation), up: the MLP's input and the outputs of its first two
// matrices.
// - hidden: The hidden state after the layer.
// - attention: The attention's input.
// - mixed: The attention's input, mixed by the attention weights of one head. The head is the
//   position modulo the number of heads.
// - heads: The outputs of the attention heads.
struct NaiveMlpRows {
  std::vector<std::vector<double>> input, gate, up, hidden, attention, mixed, heads;
};
std::vector<NaiveMlpRows> naive_mlp_rows(const io::ModelConfig& config, const TestTensors& tensors,
                                         const std::vector<TokenId>& tokens);

}  // namespace neuronmm::model
