#pragma once
// This file writes what a kernel computes as a Python expression over its operands, for NumPy and
// torch. The emitted drivers use it as their reference.

#include <set>
#include <string>

#include "trainium/kernels/description.h"

namespace neuronmm::reference {

// An expression and the functions that it needs.
struct Python {
  std::string expression;  // Text such as "silu(x.T @ w)". "x[:, :r]" selects some columns.
  // The functions that the expression calls: "silu", "concatenate".
  std::set<std::string> functions;
};
// Returns the expression for the operands and the output as they lie in HBM.
Python python(const kernels::Kernel& kernel, const kernels::KernelOptions& options);
// Returns the expression with tokens as the rows of all matrices: "silu(x @ w)".
Python python_by_rows(const kernels::Kernel& kernel);

}  // namespace neuronmm::reference
