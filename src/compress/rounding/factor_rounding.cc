#include "compress/rounding/factor_rounding.h"

#include <cmath>

namespace neuronmm::compress {

void balance_factors(DoubleMatrix& v_t, DoubleMatrix& u_t) {
  for (int64_t i = 0; i < v_t.columns(); ++i) {
    double squares = 0;
    for (int64_t j = 0; j < v_t.rows(); ++j) squares += v_t(j, i) * v_t(j, i);
    if (squares == 0) continue;
    v_t.scale_column(i, 1 / std::sqrt(squares));
    u_t.scale_row(i, std::sqrt(squares));
  }
}

FactorPair fit_to_rounded(DoubleMatrix v_t, DoubleMatrix u_t, const LowBitFormat& format) {
  balance_factors(v_t, u_t);
  DoubleMatrix rounded = v_t;
  round_to(DType::kF32, rounded);  // the work folder holds it in fp32
  round_to(format, rounded);
  // v_t·u_t is approximated by rounded · (rounded⁺·v_t) · u_t. That order avoids the [N, K]
  // product.
  const Result<DoubleMatrix> change = least_squares(rounded, v_t);
  if (change.ok()) u_t = multiply(*change, Transpose::kNo, u_t, Transpose::kNo);
  return {std::move(v_t), std::move(u_t)};
}

}  // namespace neuronmm::compress
