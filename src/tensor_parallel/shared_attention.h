#pragma once
// A layer's attention, divided by heads. Every process computes the queries, keys, values and
// attention of some heads and the terms that these heads add to the output. The terms are then
// summed.

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

// Makes the part of the layer that computes `heads` of the model's heads (heads.h). `backend` packs
// copies of the part's weights and must outlive the layer. All processes apply the layer together,
// and each gets the complete output. The layer's caches have the key-value heads of kv_heads_of().
std::unique_ptr<ops::Attention> make_shared_attention(const ops::Backend& backend,
                                                      parallel::Communicator& communicator,
                                                      parallel::Wire wire,
                                                      const ops::AttentionWeight& weight,
                                                      const Share& heads);

}  // namespace neuronmm::tensor_parallel
