#pragma once
// This file declares hand-written programs whose measurements others published, for validating the
// timing model. The structure of each program is that of the published source, and its shape is
// fixed. The programs are not kernels of this project. published_programs.h names and describes
// them.

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "trainium/tile/program.h"

namespace neuronmm::validation {

// Programs of AccelOpt (github.com/zhang677/AccelOpt), NKIBench/kernels, in fp32.
tile::Program nkibench_matmul_kernel();  // The shape is 4096 x 5120 x 12288, with a natural X.
tile::Program nkibench_transpose_matmul_kernel();  // The shape is 4096 x 2048 x 10944, from X^T.
// The shape is 4096 x 5120 x 12288 with rank 128. X^T and the low-rank product are kept in HBM
// between the stages, where the profile shows that the compiler spills them.
tile::Program nkibench_lora_kernel();

// The ladder of optimizations of nki-autotune (github.com/awslabs/nki-autotune), matmul_lhsT_rhs,
// 2048^3 in bf16.
tile::Program ladder_inner_loads_kernel();
tile::Program ladder_hoisted_kernel();  // Keeps the operands in SBUF and uses one PSUM accumulator.
tile::Program ladder_double_psum_kernel();  // Uses two PSUM accumulators.
// Loads operand blocks ahead of their use, double-buffered.
tile::Program ladder_streaming_kernel();
tile::Program ladder_two_stage_kernel();  // Divides K into two blocks, which are summed in SBUF.

// Returns the program with `copies` copies of the named buffers. The compiler rotates the tiles of
// an inner loop as deep as it chooses, and the source of a kernel does not state this depth.
tile::Program with_copies(tile::Program program, std::initializer_list<std::string_view> buffers,
                          int64_t copies);

}  // namespace neuronmm::validation
