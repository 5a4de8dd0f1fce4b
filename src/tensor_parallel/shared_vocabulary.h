#pragma once
// The projection to the vocabulary, divided by columns. Every process computes the logits of some
// tokens, and process 0 collects the wanted logits (excerpt.h).

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"

namespace neuronmm::tensor_parallel {

// Makes this process's part of the projection; `backend` packs a copy of its columns. All processes
// apply the layer together, with the same `wanted`. Only process 0's y is written.
std::unique_ptr<ops::Linear> make_shared_vocabulary(const ops::Backend& backend,
                                                    parallel::Communicator& communicator,
                                                    const ops::LinearWeight& weight);

}  // namespace neuronmm::tensor_parallel
