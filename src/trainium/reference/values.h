#pragma once
// This file computes what a kernel should produce: its formula in fp64, with a bound on how far the
// kernel's rounding may move each element. Tests and commands compare the interpreter's results
// with these values.

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "trainium/kernels/description.h"

namespace neuronmm::reference {

// The inputs by name, as they lie in HBM, already rounded to the operands' dtype.
using Operands = std::map<std::string, Matrix, std::less<>>;
// Returns tokens with standard normal values, and weights that are scaled so that results have
// about the same size.
Operands random_operands(const kernels::Instance& instance, uint32_t seed);

// The values of a row, each with its error bound: value ± error.
struct BoundedRow {
  std::vector<double> value, error;
  explicit BoundedRow(int64_t size) : value(static_cast<size_t>(size)), error(value.size()) {}
};
// Returns the result for one token. The operands must have the shapes of the instance; a mismatch
// fails a CHECK.
BoundedRow exact_row(const kernels::Instance& instance, const Operands& operands, int64_t token);

}  // namespace neuronmm::reference
