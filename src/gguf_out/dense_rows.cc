#include "gguf_out/dense_rows.h"

#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::gguf_out {
namespace {

Matrix matrix_of(const ops::WeightView& weight) {
  Matrix matrix(weight.rows(), weight.columns());
  for (int64_t row = 0; row < weight.rows(); ++row)
    to_floats(weight, row * weight.columns(), weight.columns(), matrix.row(row));
  return matrix;
}

Matrix matrix_of(const DenseRows& rows) {
  Matrix matrix(rows.rows(), rows.columns());
  for (int64_t row = 0; row < rows.rows(); ++row) rows.read(row, matrix.row(row));
  return matrix;
}

// Adds coefficients [matrix.rows()] · matrix to sums [matrix.columns()].
void add_product(const float* coefficients, const Matrix& matrix, double* sums) {
  for (int64_t j = 0; j < matrix.rows(); ++j) {
    const double factor = coefficients[j];
    const float* const row = matrix.row(j);
    for (int64_t k = 0; k < matrix.columns(); ++k) sums[k] += factor * row[k];
  }
}

class StoredRows : public DenseRows {
 public:
  explicit StoredRows(const ops::WeightView& weight) : weight_(weight) {}
  int64_t rows() const override { return weight_.rows(); }
  int64_t columns() const override { return weight_.columns(); }
  void read(int64_t row, float* out) const override {
    to_floats(weight_, row * columns(), columns(), out);
  }
  const ops::WeightView* stored() const override { return &weight_; }

 private:
  const ops::WeightView weight_;
};

// The product of two factors: second [N, r] · first [r, K].
class ProductRows : public DenseRows {
 public:
  ProductRows(const ops::WeightView& first, const ops::WeightView& second)
      : first_(matrix_of(first)), second_(second) {}
  int64_t rows() const override { return second_.rows(); }
  int64_t columns() const override { return first_.columns(); }
  void read(int64_t row, float* out) const override {
    std::vector<float> coefficients(static_cast<size_t>(first_.rows()));
    to_floats(second_, row * first_.rows(), first_.rows(), coefficients.data());
    std::vector<double> sums(static_cast<size_t>(columns()));
    add_product(coefficients.data(), first_, sums.data());
    for (size_t k = 0; k < sums.size(); ++k) out[k] = static_cast<float>(sums[k]);
  }

 private:
  const Matrix first_;
  const ops::WeightView second_;
};

// A narrower matrix [N, r] behind pivots of the input: t = x[index] + map_t · x[others].
class InputPivotRows : public DenseRows {
 public:
  InputPivotRows(std::unique_ptr<DenseRows> narrow, const ops::Pivots& pivots)
      : narrow_(std::move(narrow)),
        index_(pivots.index),
        others_(non_pivots(pivots)),
        map_(matrix_of(pivots.map_t)) {}
  int64_t rows() const override { return narrow_->rows(); }
  int64_t columns() const override { return std::ssize(index_) + std::ssize(others_); }
  void read(int64_t row, float* out) const override {
    std::vector<float> coefficients(index_.size());
    narrow_->read(row, coefficients.data());
    std::vector<double> sums(others_.size());
    add_product(coefficients.data(), map_, sums.data());
    for (size_t j = 0; j < index_.size(); ++j) out[index_[j]] = coefficients[j];
    for (size_t k = 0; k < others_.size(); ++k) out[others_[k]] = static_cast<float>(sums[k]);
  }

 private:
  const std::unique_ptr<DenseRows> narrow_;
  const std::vector<int32_t> index_, others_;
  const Matrix map_;  // [r, n - r]
};

// Pivots of the output behind a narrower matrix [r, K]: y[index] = z, y[others] = map_t · z.
class OutputPivotRows : public DenseRows {
 public:
  OutputPivotRows(const DenseRows& narrow, const ops::Pivots& pivots)
      : narrow_(matrix_of(narrow)),
        map_(pivots.map_t),
        place_(static_cast<size_t>(pivots.features())) {
    for (int32_t j = 0; const int32_t row : pivots.index) place_[static_cast<size_t>(row)] = j++;
    for (int32_t k = 0; const int32_t row : non_pivots(pivots))
      place_[static_cast<size_t>(row)] = -1 - k++;
  }
  int64_t rows() const override { return std::ssize(place_); }
  int64_t columns() const override { return narrow_.columns(); }
  void read(int64_t row, float* out) const override {
    const int64_t place = place_[static_cast<size_t>(row)], rank = narrow_.rows();
    if (place >= 0) {
      std::copy_n(narrow_.row(place), columns(), out);
      return;
    }
    std::vector<float> coefficients(static_cast<size_t>(rank));
    to_floats(map_, (-1 - place) * rank, rank, coefficients.data());
    std::vector<double> sums(static_cast<size_t>(columns()));
    add_product(coefficients.data(), narrow_, sums.data());
    for (size_t k = 0; k < sums.size(); ++k) out[k] = static_cast<float>(sums[k]);
  }

 private:
  const Matrix narrow_;
  const ops::WeightView map_;  // [n - r, r]
  // The row of the narrow matrix, or -1 minus the row of the map.
  std::vector<int32_t> place_;
};

}  // namespace

std::unique_ptr<DenseRows> dense_rows(const ops::LinearWeight& weight, const ops::Pivots& input) {
  std::unique_ptr<DenseRows> rows;
  if (weight.low_rank())
    rows = std::make_unique<ProductRows>(weight.u_t, weight.v_t);
  else
    rows = std::make_unique<StoredRows>(weight.w_t);
  if (!weight.in.empty()) rows = std::make_unique<InputPivotRows>(std::move(rows), weight.in);
  if (!weight.out.empty()) rows = std::make_unique<OutputPivotRows>(*rows, weight.out);
  if (!input.empty()) rows = std::make_unique<InputPivotRows>(std::move(rows), input);
  return rows;
}

}  // namespace neuronmm::gguf_out
