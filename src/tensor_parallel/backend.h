#pragma once
// A backend that computes one process's part of a model: attention by heads, MLPs by neurons, the
// LM head by vocabulary. Process 0 runs the program as ever; whatever model it opens on this
// backend and whatever pass it begins, the others do too (follow.h).
//
// Each process maps the whole folder and packs its part of each matrix: what it does not compute
// with is not read, but for rows of the embedding.

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/plan.h"

namespace neuronmm::tensor_parallel {

struct Settings {
  parallel::Wire wire = parallel::Wire::kFp32;  // of what processes sum and gather
  Machine machine;                              // what layouts are chosen by
};

// `own` packs copies of weights. It computes this process's part; both must outlive all models.
std::unique_ptr<ops::Backend> make_backend(parallel::Communicator& communicator,
                                           std::unique_ptr<ops::Backend> own,
                                           const Settings& settings);

// Measured in some tens of milliseconds, by all processes together; process 0's figures, for all.
Machine measure_machine(parallel::Communicator& communicator, const ops::Backend& own);

}  // namespace neuronmm::tensor_parallel
