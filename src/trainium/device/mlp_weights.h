#pragma once
// The weights of one MLP as its kernel's operands, and the kernel's values with them.

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "ops/weights.h"
#include "trainium/device/mlp_program.h"

namespace neuronmm::device {

class MlpWeights {
 public:
  // `shape` is mlp_shape(weight). Values are rounded to bf16. Factors of a smaller rank are filled
  // up with zeros, which changes no value. Fewer pivots than the kernel has are joined by others,
  // whose rows of the weight are multiplied out in fp32 first, as is all that is of another form
  // than its kernel has.
  MlpWeights(const ops::MlpWeight& weight, const MlpShape& shape);

  // y [M, hidden] = what `program` makes of x [M, hidden]: rows are interpreted in parts, one per
  // thread. Columns of x and y are in the model's order.
  void apply(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const;

 private:
  void add_factors(const std::string& name, const ops::LinearWeight& weight, int64_t rank);
  void add_up(const ops::MlpWeight& weight, const MlpShape& shape);
  void add_pivoted(const std::string& name, const ops::LinearWeight& weight, int64_t rank);
  void interpret(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const;

  std::map<std::string, Matrix> operands_;  // by the kernel's names: [in, out], rounded to bf16
  // The model's number of each column of what the kernel reads x as, by its names, and of its y;
  // empty: they are in the model's order.
  std::map<std::string, std::vector<int32_t>> x_orders_;
  std::vector<int32_t> y_order_;
};

}  // namespace neuronmm::device
