#include "compress/factors/dense_mlp.h"

#include <utility>

namespace neuronmm::compress {

Result<DenseMlp> DenseMlp::read(const ops::MlpWeight& mlp) {
  DenseMlp dense{to_double_matrix(mlp.gate.w_t), to_double_matrix(mlp.up.w_t),
                 to_double_matrix(mlp.down.w_t)};
  const auto read_bias = [](const TensorView& bias, DoubleMatrix& row) {
    if (bias.empty()) return;
    row = DoubleMatrix(1, bias.size());
    to_doubles(bias, 0, bias.size(), row.data());
  };
  read_bias(mlp.gate.bias, dense.gate_bias);
  read_bias(mlp.up.bias, dense.up_bias);
  read_bias(mlp.down.bias, dense.down_bias);
  for (const auto& [name, weight] : {std::pair("gate", &dense.gate_t), std::pair("up", &dense.up_t),
                                     std::pair("down", &dense.down_t)}) {
    if (!weight->all_finite()) return fail("{}: the weight holds NaN or infinity", name);
  }
  return dense;
}

}  // namespace neuronmm::compress
