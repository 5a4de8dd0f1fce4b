#pragma once
// The backend of tensor parallelism: it computes one process's part of a model, which is divided by
// heads in attention, by neurons in MLPs, by whole experts in mixtures and by tokens of the
// vocabulary in the LM head. Process 0 runs the program as usual. The other processes open the
// models that process 0 opens on this backend and compute their parts of every pass that process 0
// begins (follow.h).
//
// Each process maps the whole folder but packs only its part of each matrix. Weights that it does
// not compute with are not read, except for rows of the embedding.

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/plan.h"

namespace neuronmm::tensor_parallel {

struct Settings {
  // The format of values that processes sum and gather.
  parallel::Wire wire = parallel::Wire::kFp32;
  // The measured speeds that decide which layout each MLP gets.
  Machine machine;
};

// Makes the backend. `own` computes this process's part and packs copies of weights. `communicator`
// and the returned backend must outlive all models.
std::unique_ptr<ops::Backend> make_backend(parallel::Communicator& communicator,
                                           std::unique_ptr<ops::Backend> own,
                                           const Settings& settings);

// Measures the link between the processes and the speed of `own`. All processes call it together;
// it takes some tens of milliseconds, and every process gets the figures of process 0.
Machine measure_machine(parallel::Communicator& communicator, const ops::Backend& own);

}  // namespace neuronmm::tensor_parallel
