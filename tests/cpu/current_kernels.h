#pragma once
// The kernels that the running test is about. on_every_target.h chooses them before each test.

#include "cpu/kernels.h"

namespace neuronmm::cpu {

inline KernelChoice current_choice;
inline const Kernels& current_kernels() { return best_kernels(current_choice); }

// Whether the kernels of the running test round rows that meet bf16 weights to bf16.
inline bool current_rounds_to_bf16 = false;

}  // namespace neuronmm::cpu
