#pragma once
// The sizes and the form of an MLP. They decide which kernel runs it and how long it takes.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ops/weights.h"
#include "trainium/kernels/kernel.h"

namespace neuronmm::device {

struct MlpShape {
  int64_t hidden_size = 0, intermediate_size = 0;
  int64_t rank = 0;  // The rank of gate, up and down as U·V; 0 if they are no such factors.
  int64_t input_pivots = 0;      // Pivots of X that gate and up read; 0 if they read all of X.
  int64_t output_pivots = 0;     // Pivots of Y; 0 if down makes all of Y.
  bool separate_pivots = false;  // Gate and up have `input_pivots` pivots each, not the same.

  auto operator<=>(const MlpShape&) const = default;
};

// Returns the shape of an MLP. There are kernels for these forms:
//   - three dense matrices,
//   - three matrices of two factors each,
//   - dense matrices with input pivots, which gate and up share or have each,
//   - dense matrices with output pivots, alone or in addition to input pivots.
// The rank of factors is the largest of the three, and that of separate pivots the larger of the
// two. A matrix of another form counts as multiplied out. Fails for quantized weights, a bias, and
// pivots on the other side of a matrix.
Result<MlpShape> mlp_shape(const ops::MlpWeight& weight);

// Returns the name of the kernel that runs the MLP.
std::string_view kernel_of(const MlpShape& shape);
kernels::KernelShape kernel_shape(const MlpShape& shape, int64_t tokens);
// Returns how often the columns of X or Y are reordered for a kernel. The kernels expect pivots
// first.
int num_gathers(const MlpShape& shape);
// Returns for example "hidden size 384, intermediate size 1024, rank 0".
std::string to_string(const MlpShape& shape);

}  // namespace neuronmm::device
