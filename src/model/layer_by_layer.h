#pragma once
// A model that runs with one layer's weights in memory at a time: for whoever compares models that
// would not find room beside one another.

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"
#include "text/token_id.h"

namespace neuronmm::model {

// What the LM head reads of every token (LmHead, before its norm): [tokens, H], sequence after
// sequence, each a context of its own. The same bits as in a Transformer with caches in fp32.
// `layer_done` is called behind every layer and may end the run with an error. In memory: one
// layer, 8·H bytes per token and the keys and values of the longest sequence. Errors: what a
// Transformer would not load.
Result<Matrix> run_layer_by_layer(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                  std::span<const std::vector<text::TokenId>> sequences,
                                  const ops::Backend& backend,
                                  const std::function<Status()>& layer_done);

}  // namespace neuronmm::model
