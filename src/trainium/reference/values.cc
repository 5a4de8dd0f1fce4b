#include "trainium/reference/values.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/float16.h"
#include "base/result.h"
#include "trainium/kernels/experts.h"
#include "trainium/reference/errors.h"

namespace neuronmm::reference {

using kernels::Formula;
using kernels::Instance;
using Operation = Formula::Operation;

namespace {

// Some of the rows of a matrix. Of a mixture's weight, they are those of one expert.
struct Rows {
  const Matrix& matrix;
  int64_t begin, count;
};

// Computes (x ± e)·W. A product has the error of x plus one rounding, both times |w|. The value
// that the sums start from counts as one more product.
BoundedRow product(BoundedRow result, const BoundedRow& left, const Rows& weight, double relative) {
  NMM_CHECK(std::ssize(left.value) == weight.count);
  NMM_CHECK(std::ssize(result.value) == weight.matrix.columns());
  for (size_t j = 0; j < result.value.size(); ++j) {
    result.error[j] += relative * (std::fabs(result.value[j]) + result.error[j]);
  }
  for (int64_t k = 0; k < weight.count; ++k) {
    const double value = left.value[static_cast<size_t>(k)];
    const double error = left.error[static_cast<size_t>(k)];
    const double bound = error + relative * (std::fabs(value) + error);
    const float* row = weight.matrix.row(weight.begin + k);
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
  int64_t expert = 0;  // The number of the expert whose weights products read.

  const Matrix& matrix(const std::string& name) const { return operands.find(name)->second; }

  Rows weight(const std::string& name) const {
    const Matrix& values = matrix(name);
    const char rows = operand_of(*instance.kernel, name).layout.rows;
    if (kernels::find_expert_rows(rows) == nullptr) return {values, 0, values.rows()};
    const int64_t count = dimension_of(instance.shape, kernels::contraction_of(rows));
    return {values, expert * count, count};
  }

  // Adds the outputs of the experts, each times the token's share of it.
  BoundedRow sum_of_experts(const Formula& formula, double relative) const {
    const Matrix &numbers = matrix(formula.experts), &shares = matrix(formula.operand);
    BoundedRow sum(0);
    std::vector<double> terms;
    for (int64_t d = 0; d < numbers.columns(); ++d) {
      const Evaluation of_expert{instance, operands, token,
                                 static_cast<int64_t>(numbers.row(0)[d])};
      const BoundedRow output = of_expert(formula.inputs[0]);
      const auto share = static_cast<double>(shares.row(token)[d]);
      if (d == 0) sum = BoundedRow(std::ssize(output.value)), terms.resize(output.value.size());
      for (size_t j = 0; j < output.value.size(); ++j) {
        sum.value[j] += share * output.value[j];
        sum.error[j] += std::fabs(share) * output.error[j];
        terms[j] += std::fabs(share) * (std::fabs(output.value[j]) + output.error[j]);
      }
    }
    for (size_t j = 0; j < terms.size(); ++j) sum.error[j] += relative * terms[j];
    return sum;
  }

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
        const Rows rows = weight(formula.operand);
        const bool has_start = formula.inputs.size() > 1;
        return product(has_start ? (*this)(formula.inputs[1]) : BoundedRow(rows.matrix.columns()),
                       (*this)(formula.inputs[0]), rows, relative);
      }
      case Operation::kAppended: {
        const BoundedRow left = (*this)(formula.inputs[0]);
        const Rows rows = weight(formula.operand);
        return append_columns(left,
                              product(BoundedRow(rows.matrix.columns()), left, rows, relative));
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
      case Operation::kExperts:
        return sum_of_experts(formula, relative);
    }
    return BoundedRow(0);
  }
};

// Chooses experts at random so that each of D of them has a token. A token's weights add up to 1,
// as a router's do.
kernels::GroupedExperts random_experts(const kernels::KernelShape& shape, std::mt19937& random) {
  std::vector<int64_t> all(static_cast<size_t>(shape.E));
  std::iota(all.begin(), all.end(), int64_t{0});
  std::shuffle(all.begin(), all.end(), random);
  kernels::ExpertChoice choice{.tokens = shape.M, .active = shape.A, .experts = {}, .weights = {}};
  std::uniform_real_distribution<float> weight(0.5f, 1.5f);
  for (int64_t i = 0; i < shape.M * shape.A; ++i) {
    choice.experts.push_back(all[static_cast<size_t>(i % shape.D)]);
    choice.weights.push_back(weight(random) / static_cast<float>(shape.A));
  }
  Result<kernels::GroupedExperts> grouped = kernels::group_by_expert(choice, shape.E);
  NMM_CHECK(grouped.ok());  // The checks of shapes (registry.h) make every choice valid.
  return std::move(*grouped);
}

void add_experts(const Instance& instance, std::mt19937& random, Operands& operands) {
  kernels::GroupedExperts grouped = random_experts(instance.shape, random);
  for (const kernels::OperandDescription& operand : instance.kernel->operands) {
    if (operand.kind == kernels::OperandKind::kExperts) {
      operands.emplace(operand.name, std::move(grouped.experts));
    } else if (operand.kind == kernels::OperandKind::kShares) {
      operands.emplace(operand.name, std::move(grouped.shares));
    }
  }
}

}  // namespace

// The caller gives the seed, so that a failure can be reproduced.
Operands random_operands(const Instance& instance, uint32_t seed) {
  std::mt19937 random(seed);
  Operands operands;
  if (instance.kernel->experts) add_experts(instance, random, operands);
  for (const kernels::OperandDescription& operand : instance.kernel->operands) {
    if (operand.role != tile::HbmRole::kInput || operands.contains(operand.name)) continue;
    const kernels::MatrixLayout layout = layout_of(*instance.kernel, operand, instance.options);
    const Shape shape = shape_of(instance.shape, layout);
    const auto contraction =
        static_cast<double>(dimension_of(instance.shape, kernels::contraction_of(layout.rows)));
    const double scale = layout.has_tokens() ? 1.0 : 1.0 / std::sqrt(contraction);
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
