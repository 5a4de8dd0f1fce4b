#include "trainium/reference/values.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/float16.h"
#include "base/result.h"
#include "trainium/reference/errors.h"

namespace neuronmm::reference {

using kernels::Formula;
using kernels::Instance;
using Operation = Formula::Operation;

namespace {

// Computes (x ± e)·W. A product has the error of x plus one rounding, both times |w|. The value
// that the sums start from counts as one more product.
BoundedRow product(BoundedRow result, const BoundedRow& left, const Matrix& weight,
                   double relative) {
  NMM_CHECK(std::ssize(left.value) == weight.rows());
  NMM_CHECK(std::ssize(result.value) == weight.columns());
  for (size_t j = 0; j < result.value.size(); ++j) {
    result.error[j] += relative * (std::fabs(result.value[j]) + result.error[j]);
  }
  for (int64_t k = 0; k < weight.rows(); ++k) {
    const double value = left.value[static_cast<size_t>(k)];
    const double error = left.error[static_cast<size_t>(k)];
    const double bound = error + relative * (std::fabs(value) + error);
    const float* row = weight.row(k);
    for (size_t j = 0; j < result.value.size(); ++j) {
      const auto factor = static_cast<double>(row[j]);
      result.value[j] += value * factor;
      result.error[j] += bound * std::fabs(factor);
    }
  }
  return result;
}

BoundedRow columns_between(const BoundedRow& row, size_t begin, size_t end) {
  BoundedRow result(static_cast<int64_t>(end - begin));
  std::copy_n(row.value.begin() + static_cast<std::ptrdiff_t>(begin), end - begin,
              result.value.begin());
  std::copy_n(row.error.begin() + static_cast<std::ptrdiff_t>(begin), end - begin,
              result.error.begin());
  return result;
}

BoundedRow append_columns(BoundedRow left, const BoundedRow& right) {
  left.value.insert(left.value.end(), right.value.begin(), right.value.end());
  left.error.insert(left.error.end(), right.error.begin(), right.error.end());
  return left;
}

// The slope of silu limits how much of an error it passes on.
BoundedRow silu(const BoundedRow& input, double relative) {
  constexpr double kSlope = 1.1;  // The slope |silu'| is below 1.0998.
  BoundedRow result = input;
  for (size_t j = 0; j < input.value.size(); ++j) {
    const double value = input.value[j] / (1 + std::exp(-input.value[j]));
    const double error = kSlope * input.error[j];
    result.value[j] = value;
    result.error[j] = error + relative * (std::fabs(value) + error);
  }
  return result;
}

// Computes (a ± ea)(b ± eb). The error includes the product of both errors, because the bound must
// hold.
BoundedRow times(const BoundedRow& a, const BoundedRow& b, double relative) {
  NMM_CHECK(a.value.size() == b.value.size());
  BoundedRow result = a;
  for (size_t j = 0; j < a.value.size(); ++j) {
    const double value_a = std::fabs(a.value[j]), value_b = std::fabs(b.value[j]);
    const double error = a.error[j] * (value_b + b.error[j]) + value_a * b.error[j];
    result.value[j] = a.value[j] * b.value[j];
    result.error[j] = error + relative * (value_a * value_b + error);
  }
  return result;
}

// Evaluates a kernel's formula for one token, from the operands inwards.
struct Evaluation {
  const Instance& instance;
  const Operands& operands;
  int64_t token;

  const Matrix& matrix(const std::string& name) const { return operands.find(name)->second; }

  // Returns the token's row of X, for either layout of X.
  BoundedRow tokens(const std::string& name) const {
    const kernels::OperandDescription& description = operand_of(*instance.kernel, name);
    const bool transposed = layout_of(*instance.kernel, description, instance.options).transposed();
    const Matrix& values = matrix(name);
    BoundedRow row(transposed ? values.rows() : values.columns());
    for (size_t i = 0; i < row.value.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      row.value[i] =
          static_cast<double>(transposed ? values.row(at)[token] : values.row(token)[at]);
    }
    return row;
  }

  BoundedRow operator()(const Formula& formula) const {
    const double relative = error_of(formula, instance).bound;
    switch (formula.operation) {
      case Operation::kOperand:
        return tokens(formula.operand);
      case Operation::kProduct: {
        const Matrix& weight = matrix(formula.operand);
        const bool has_start = formula.inputs.size() > 1;
        return product(has_start ? (*this)(formula.inputs[1]) : BoundedRow(weight.columns()),
                       (*this)(formula.inputs[0]), weight, relative);
      }
      case Operation::kAppended: {
        const BoundedRow left = (*this)(formula.inputs[0]);
        const Matrix& weight = matrix(formula.operand);
        return append_columns(left, product(BoundedRow(weight.columns()), left, weight, relative));
      }
      case Operation::kFirstColumns:
      case Operation::kOtherColumns: {
        const BoundedRow all = (*this)(formula.inputs[0]);
        const auto split = static_cast<size_t>(dimension_of(instance.shape, formula.first_columns));
        return formula.operation == Operation::kFirstColumns
                   ? columns_between(all, 0, split)
                   : columns_between(all, split, all.value.size());
      }
      case Operation::kSilu:
        return silu((*this)(formula.inputs[0]), relative);
      case Operation::kTimes:
        return times((*this)(formula.inputs[0]), (*this)(formula.inputs[1]), relative);
    }
    return BoundedRow(0);
  }
};

}  // namespace

// The caller gives the seed, so that a failure can be reproduced.
Operands random_operands(const Instance& instance, uint32_t seed) {
  std::mt19937 random(seed);
  Operands operands;
  for (const kernels::OperandDescription& operand : instance.kernel->operands) {
    if (operand.role != tile::HbmRole::kInput) continue;
    const kernels::MatrixLayout layout = layout_of(*instance.kernel, operand, instance.options);
    const Shape shape = shape_of(instance.shape, layout);
    const double scale = layout.has_tokens() ? 1.0 : 1.0 / std::sqrt(static_cast<double>(shape[0]));
    std::normal_distribution<float> normal(0.0f, static_cast<float>(scale));
    Matrix matrix(shape[0], shape[1]);
    const bool rounded = instance.options.dtype == DType::kBF16;
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      const float value = normal(random);
      matrix.data()[i] = rounded ? bf16::from_float(value).to_float() : value;
    }
    operands.emplace(operand.name, std::move(matrix));
  }
  return operands;
}

BoundedRow exact_row(const Instance& instance, const Operands& operands, int64_t token) {
  return Evaluation{instance, operands, token}(instance.kernel->formula);
}

}  // namespace neuronmm::reference
