#pragma once
// How far roundings take what a kernel computes from the exact result: of one operation of its
// formula, at most and on average; of the whole, on average.

#include "trainium/kernels/description.h"

namespace neuronmm::reference {

struct OperationError {
  // At most, relative to the result's terms: the sum of their absolute values for a product, the
  // absolute value of the result otherwise. Errors of what it is computed from come on top.
  double bound = 0;
  // The mean square of the relative error, if roundings are independent. Likewise on top.
  double variance = 0;
};
OperationError error_of(const kernels::Formula& operation, const kernels::Instance& instance);

// The relative error of the whole result, root mean square, if roundings are independent.
double expected_error(const kernels::Instance& instance);
// What a run on a device may be off by, relative, in the Frobenius norm: five times that.
double tolerance(const kernels::Instance& instance);

// FLOPs of the problem, without recomputation: every weight meets each of the M rows once. In
// floating point, since a shape that nobody has checked may have more than 64 bits of them.
double problem_flops(const kernels::Kernel& kernel, const kernels::KernelShape& shape);

}  // namespace neuronmm::reference
