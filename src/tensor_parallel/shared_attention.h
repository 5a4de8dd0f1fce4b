#pragma once
// A layer's attention, shared out by heads: every process computes the queries, keys, values and
// attention of some heads and the terms that they add to the output; the terms are summed.

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

// Makes the part of the layer that computes `heads` (heads.h) of the model's. `backend` packs
// copies of its weights and must outlive it. All processes apply the layer together; each gets the
// complete output. Its caches have the key-value heads of kv_heads_of().
std::unique_ptr<ops::Attention> make_shared_attention(const ops::Backend& backend,
                                                      parallel::Communicator& communicator,
                                                      parallel::Wire wire,
                                                      const ops::AttentionWeight& weight,
                                                      const Share& heads);

}  // namespace neuronmm::tensor_parallel
