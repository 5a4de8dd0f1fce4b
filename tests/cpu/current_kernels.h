#pragma once
// The kernels that the running test is about: on_every_target.h chooses them.

#include "cpu/kernels.h"

namespace neuronmm::cpu {

inline KernelChoice current_choice;
inline const Kernels& current_kernels() { return best_kernels(current_choice); }

}  // namespace neuronmm::cpu
