#pragma once
// What decides which kernel runs an MLP and how long it takes: its sizes.

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
  int64_t rank = 0;         // of gate, up and down as U·V; 0: none of them is
  int64_t input = 0;        // pivots of X that gate and up read; 0: they read all of X
  int64_t output = 0;       // pivots of Y; 0: down makes all of Y
  bool own_pivots = false;  // gate and up have `input` pivots each, not the same

  auto operator<=>(const MlpShape&) const = default;
};

// The kernels are for three dense matrices, three of two factors, or dense ones behind input
// pivots, of gate and up together or of each, and before output pivots. Of factors the rank is the
// largest of the three, of own pivots the larger of the two; what is of another form than its
// kernel has counts as multiplied out. Errors: int8, a bias, pivots on the other side of a matrix.
Result<MlpShape> mlp_shape(const ops::MlpWeight& weight);

std::string_view kernel_of(const MlpShape& shape);
kernels::KernelShape kernel_shape(const MlpShape& shape, int64_t tokens);
// How often the columns of X or Y are put into another order: the kernels have pivots first.
int gathers(const MlpShape& shape);
// "hidden size 384, intermediate size 1024, rank 0"
std::string to_string(const MlpShape& shape);

}  // namespace neuronmm::device
