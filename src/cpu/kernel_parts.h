#pragma once
// Declares the functions that fill in a table of kernels (kernels.h). Each function has a file of
// its own, which is compiled once per instruction set. It sets its fields of the table for the
// instruction set that Highway has chosen. Only kernels.cc calls these functions.

#include <cstdint>

#include "cpu/kernels.h"

namespace neuronmm::cpu {

// These functions read dot_products and amx of the table. The table may have amx only on a CPU with
// AMX, together with dot products of int8, which compute the ragged ends of a product.
void set_float_kernels(Kernels& kernels);  // float_kernels.cc: floats, attention, element-wise
void set_int8_kernels(Kernels& kernels);   // int8_kernels.cc
void set_int6_kernels(Kernels& kernels);   // int6_kernels.cc
void set_int4_kernels(Kernels& kernels);   // int4_kernels.cc
void set_coded_kernels(Kernels& kernels);  // coded_kernels.cc

// Returns the instruction set that Highway has chosen, as HWY_TARGET.
int64_t chosen_target();

}  // namespace neuronmm::cpu
