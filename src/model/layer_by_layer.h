#pragma once
// Runs a model with the weights of one layer in memory at a time. The comparison of two model
// folders (eval/folder_divergence.h) uses it for models that do not fit into memory together.

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

// Returns the hidden states after the last layer, which the LM head reads (LmHead, before its
// norm): [tokens, H] in fp32, sequence after sequence. Every sequence is a context of its own. The
// result has the same bits as in a Transformer whose caches are in fp32.
//
// `layer_done` is called after every layer and may end the run with an error. Memory holds the
// weights of one layer, the hidden states of all tokens, and the keys and values of the longest
// sequence. Errors: everything that Transformer::load refuses.
Result<Matrix> run_layer_by_layer(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                  std::span<const std::vector<text::TokenId>> sequences,
                                  const ops::Backend& backend,
                                  const std::function<Status()>& layer_done);

}  // namespace neuronmm::model
