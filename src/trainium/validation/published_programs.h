#pragma once
// This file names the programs behind the published measurements, and builds each from our kernels
// or from the hand-written ones of published_kernels.h. published.cc and the `paper` command use
// them.

#include <cstdint>
#include <string>
#include <string_view>

#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::validation {

// A program with the shape, device and dtype of its measurement.
struct PublishedProgram {
  std::string id;           // A word for tables and charts: "neuronmm_32768".
  std::string_view kernel;  // The kernel's name, as its authors call it.
  kernels::KernelShape shape;
  std::string_view device;
  DType dtype;
  tile::Program (*make)(const PublishedProgram&);
};
std::string shape_text(const PublishedProgram& program);  // For example "32768,8192,4096,16384".
std::string_view dtype_text(const PublishedProgram& program);

// The versions of NKI's matrix multiplication tutorial at 4096 x 8192 x 8192: on trn1 in bf16, on
// trn2 in fp32.
PublishedProgram tutorial_tiled_trn1();
PublishedProgram tutorial_optimized_trn1();
PublishedProgram tutorial_tiled();
PublishedProgram tutorial_hoisted();
PublishedProgram tutorial_blocked();
PublishedProgram tutorial_optimized();

// Programs of AccelOpt's NKIBench and of nki-autotune's ladder (published_kernels.h).
PublishedProgram nkibench_matmul();
PublishedProgram nkibench_transpose_matmul();
PublishedProgram nkibench_lora();
PublishedProgram ladder_inner_loads();
PublishedProgram ladder_hoisted();
PublishedProgram ladder_double_psum();
PublishedProgram ladder_streaming();
PublishedProgram ladder_two_stage();

// The programs of NeuronMM's comparison for M rows, K 8192, r 4096, N 16384, bf16 on trn1. They are
// its fused kernel, two calls of the tutorial's kernel, and one call of that kernel for the dense
// weight.
PublishedProgram neuronmm(int64_t M);
PublishedProgram nki_xuv(int64_t M);
PublishedProgram nki_xw(int64_t M);

}  // namespace neuronmm::validation
