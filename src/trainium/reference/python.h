#pragma once
// What a kernel computes as a Python expression over its operands, for NumPy and torch.

#include <set>
#include <string>

#include "trainium/kernels/description.h"

namespace neuronmm::reference {

struct Python {
  std::string expression;           // "silu(x.T @ w)"; "x[:, :r]" where it takes some columns
  std::set<std::string> functions;  // that it calls: "silu", "concatenate"
};
// For the operands and the output as they lie in HBM.
Python python(const kernels::Kernel& kernel, const kernels::KernelOptions& options);
// The same with tokens as the rows of all: "silu(x @ w)".
Python python_by_rows(const kernels::Kernel& kernel);

}  // namespace neuronmm::reference
