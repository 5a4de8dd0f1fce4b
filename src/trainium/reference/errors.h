#pragma once
// This file estimates how far rounding takes the result of a kernel from the exact result. It gives
// a bound and a mean for one operation of the kernel's formula, and a mean for the whole kernel.
// The functions of values.h use the bounds for single elements. The emitted drivers use the
// tolerance.

#include "trainium/kernels/description.h"

namespace neuronmm::reference {

// The rounding error of one operation. Errors of the values that it is computed from must be added
// by the caller.
struct OperationError {
  // The largest error, relative to the result's terms. The terms of a product are the absolute
  // values of its summands together; otherwise they are the absolute value of the result.
  double bound = 0;
  // The mean square of the relative error, if roundings are independent.
  double variance = 0;
};
OperationError error_of(const kernels::Formula& operation, const kernels::Instance& instance);

// Returns the root mean square of the relative error of the whole result, if roundings are
// independent.
double expected_error(const kernels::Instance& instance);
// Returns the relative error, in the Frobenius norm, that a run on a device may have. It is five
// times expected_error().
double tolerance(const kernels::Instance& instance);

// Returns the FLOPs of the problem without recomputation: every weight is multiplied with each of
// the M rows once. The result is a double, because the FLOPs of an unchecked shape may exceed 64
// bits.
double problem_flops(const kernels::Kernel& kernel, const kernels::KernelShape& shape);

}  // namespace neuronmm::reference
