#pragma once
// The CPU backend: SIMD kernels (Highway, run-time dispatch over the instruction sets that the CPU
// has) on the thread team.
//
// BF16 weights are packed as bf16, int8 ones as int8, all others as fp32; activations and sums are
// fp32, but for activations that meet int8 weights, and those that meet bf16 ones if the kernels
// were chosen so (kernels.h). Results do not depend on the number of threads. A backend
// and all that it made share scratch memory, so they serve one forward at a time: use one backend
// per concurrent forward.

#include <memory>

#include "ops/backend.h"

namespace neuronmm::cpu {

struct Kernels;

std::unique_ptr<ops::Backend> make_backend();  // with best_kernels()
std::unique_ptr<ops::Backend> make_backend(const Kernels& kernels);

}  // namespace neuronmm::cpu
