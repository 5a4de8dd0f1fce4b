#pragma once
// Programs whose measurements others published, for validating the timing model: the structure of
// each is that of the published source. They are no kernels of ours: their shapes are fixed.

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "trainium/tile/program.h"

namespace neuronmm::validation {

// AccelOpt (github.com/zhang677/AccelOpt), NKIBench/kernels: fp32.
tile::Program nkibench_matmul_kernel();            // 4096 x 5120 x 12288, X natural
tile::Program nkibench_transpose_matmul_kernel();  // 4096 x 2048 x 10944, X^T
// 4096 x 5120 x 12288 with rank 128. X^T and the low-rank product are kept in HBM between the
// stages, where the profile shows the compiler to spill them.
tile::Program nkibench_lora_kernel();

// nki-autotune (github.com/awslabs/nki-autotune), matmul_lhsT_rhs, 2048^3 bf16: its ladder of
// optimizations.
tile::Program
ladder_inner_loads_kernel();            // both tiles loaded for every nc_matmul, one buffer each
tile::Program ladder_hoisted_kernel();  // operands resident, one PSUM accumulator
tile::Program ladder_double_psum_kernel();  // two PSUM accumulators
tile::Program ladder_streaming_kernel();    // operand blocks loaded ahead, double-buffered
tile::Program ladder_two_stage_kernel();    // the same with K in two blocks, summed in SBUF

// The same program with other rotation depths: the compiler rotates the tiles of an inner loop as
// deep as it sees fit, which the source of a kernel does not say.
tile::Program with_copies(tile::Program program, std::initializer_list<std::string_view> buffers,
                          int64_t copies);

}  // namespace neuronmm::validation
