#include "fit/dequantized_weight.h"

#include <algorithm>

namespace neuronmm::fit {
namespace {

// The rows of an LM head that are in memory as floats at a time. With a vocabulary of 128 thousand
// the whole head takes more memory than the rest of a small model. Assumed.
constexpr int64_t kHeadRows = 8192;

}  // namespace

double factor_at(const std::vector<double>& factors, int64_t i) {
  return factors.empty() ? 1.0 : factors[static_cast<size_t>(i)];
}

DequantizedWeight dequantized_rows(const ops::Codes& codes, const compress::TensorScale& scale,
                                   int64_t first, int64_t count) {
  DequantizedWeight dequantized{{count, codes.columns}, {}};
  dequantized.values.reserve(static_cast<size_t>(count * codes.columns));
  for (int64_t i = first; i < first + count; ++i) {
    const double row = factor_at(scale.rows, i);
    for (int64_t j = 0; j < codes.columns; ++j) {
      dequantized.values.push_back(
          static_cast<float>(codes.value(i, j) / (row * factor_at(scale.columns, j))));
    }
  }
  return dequantized;
}

Matrix QuantizedHead::embed(const std::vector<std::vector<text::TokenId>>& sequences) const {
  std::vector<float> values;
  for (const auto& sequence : sequences) {
    for (const text::TokenId token : sequence) {
      const DequantizedWeight row = dequantized_rows(codes_, scale_, token, 1);
      values.insert(values.end(), row.values.begin(), row.values.end());
    }
  }
  Matrix embedded(std::ssize(values) / codes_.columns, codes_.columns);
  std::copy(values.begin(), values.end(), embedded.data());
  return embedded;
}

void QuantizedHead::apply(ConstMatrixView x, MutableMatrixView y) const {
  for (int64_t first = 0; first < codes_.rows; first += kHeadRows) {
    const int64_t count = std::min(kHeadRows, codes_.rows - first);
    const DequantizedWeight dequantized = dequantized_rows(codes_, scale_, first, count);
    ops::LinearWeight weight;
    weight.w_t = dequantized.view();
    Matrix piece(x.rows, count);
    backend_->make_linear(weight)->apply(x, piece.view());
    for (int64_t i = 0; i < x.rows; ++i) {
      std::copy_n(piece.view().row(i), count, y.row(i) + first);
    }
  }
}

}  // namespace neuronmm::fit
