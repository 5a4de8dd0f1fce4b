#pragma once
// The weights of one MLP as the operands of its kernel, and the kernel's computation with them. The
// simulated backend (backend.h) has one per MLP.

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "ops/weights.h"
#include "trainium/device/mlp_program.h"

namespace neuronmm::device {

class MlpWeights {
 public:
  // Prepares the operands. `shape` is mlp_shape(weight). Values are rounded to bf16. Factors of a
  // smaller rank are padded with zeros, which changes no value. If a matrix has fewer pivots than
  // the kernel, other inputs become pivots. Their rows of the weight, and matrices of another form
  // than the kernel's, are first multiplied out in fp32.
  MlpWeights(const ops::MlpWeight& weight, const MlpShape& shape);

  // Computes y [M, hidden] by interpreting `program` on x [M, hidden]. Every thread interprets the
  // program on a part of the rows. Columns of x and y are in the model's order.
  void apply(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const;

 private:
  void add_factors(const std::string& name, const ops::LinearWeight& weight, int64_t rank);
  void add_up(const ops::MlpWeight& weight, const MlpShape& shape);
  void add_pivoted(const std::string& name, const ops::LinearWeight& weight, int64_t rank);
  void interpret(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const;

  std::map<std::string, Matrix> operands_;  // By the kernel's names: [in, out], rounded to bf16.
  // The model's column behind each column of the kernel's X (by operand name) and Y. An order is
  // empty if it is the model's.
  std::map<std::string, std::vector<int32_t>> x_orders_;
  std::vector<int32_t> y_order_;
};

}  // namespace neuronmm::device
