#pragma once
// What a kernel should give: its formula in fp64, with a bound on how far the kernel's roundings
// may take every element from it.

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "trainium/kernels/description.h"

namespace neuronmm::reference {

// The inputs by name, as they lie in HBM, already rounded to the operands' dtype.
using Operands = std::map<std::string, Matrix, std::less<>>;
// Tokens of standard normal values; weights scaled so that results stay of that size.
Operands random_operands(const kernels::Instance& instance, uint32_t seed);

// value ± error, element by element.
struct BoundedRow {
  std::vector<double> value, error;
  explicit BoundedRow(int64_t size) : value(static_cast<size_t>(size)), error(value.size()) {}
};
// The result for one token.
BoundedRow exact_row(const kernels::Instance& instance, const Operands& operands, int64_t token);

}  // namespace neuronmm::reference
