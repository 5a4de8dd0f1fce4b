#pragma once
// The kernels that use AMX, on tiles that are emulated, for tests on CPUs without AMX.

#include "cpu/kernels.h"

namespace neuronmm::cpu {

// Returns current_kernels() with other functions for products of int8 and bf16 rows. These call
// current_kernels() for the rest, so current_kernels() must not change while they are used.
const Kernels& emulated_amx();

}  // namespace neuronmm::cpu
