#pragma once
// The weights of one MLP as its kernel's operands, and the kernel's values with them.

#include <map>
#include <string>

#include "base/tensor.h"
#include "ops/weights.h"
#include "trainium/device/mlp_program.h"

namespace neuronmm::device {

// The shape of the kernel that takes all three matrices, which must have neither bias nor pivots.
// The kernels are for three dense or three low-rank matrices: of low-rank ones the rank is the
// largest of the three, and beside a dense one low-rank ones count as dense (rank 0).
Result<MlpShape> mlp_shape(const ops::MlpWeight& weight);

class MlpWeights {
 public:
  // `shape` is mlp_shape(weight). Values are rounded to bf16; factors of a smaller rank are filled
  // up with zeros, which changes no value; for the dense kernel factors are multiplied.
  MlpWeights(const ops::MlpWeight& weight, const MlpShape& shape);

  // y [M, hidden] = what `program` makes of x [M, hidden]: rows are interpreted in parts, one per
  // thread.
  void apply(const MlpProgram& program, ConstMatrixView x, MutableMatrixView y) const;

 private:
  std::map<std::string, Matrix> operands_;  // by the kernel's names: [in, out], rounded to bf16
};

}  // namespace neuronmm::device
