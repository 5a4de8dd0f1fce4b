#pragma once
// The kernels as they are with AMX, on tiles that are emulated.

#include "cpu/kernels.h"

namespace neuronmm::cpu {

// Those of current_kernels(), with others for products of int8 and of bf16 rows. They call
// current_kernels() for the rest, so it must not change while they are used.
const Kernels& emulated_amx();

}  // namespace neuronmm::cpu
