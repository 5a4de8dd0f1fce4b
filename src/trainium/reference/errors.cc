// The bound counts every rounding (Higham, Accuracy and Stability of Numerical Algorithms, section
// 3.1). It adds a unit of the dtype that a result is stored in, a unit of the dtype of sums per
// block of a contraction, and a unit of fp32 per product.

#include "trainium/reference/errors.h"

#include <cmath>
#include <set>
#include <string>

namespace neuronmm::reference {

using kernels::Formula;
using kernels::Instance;
using Operation = Formula::Operation;

namespace {

// The unit roundoffs of formats with 24 and 8 bits of significand.
constexpr double kUnitFp32 = 0x1p-24, kUnitBf16 = 0x1p-8;
// A factor that covers the products of two errors. It suffices for errors x up to 0.019, because
// then x / (1 - x) is below 1.02 x.
constexpr double kSecondOrder = 1.02;
// The error of the activation itself, in units of fp32. Assumed: the interpreter's exp, sum and
// quotient stay well below it.
constexpr double kSiluUnits = 16;

double unit(DType dtype) { return dtype == DType::kBF16 ? kUnitBf16 : kUnitFp32; }

// Returns the variance of one rounding. A rounding is off by up to one unit times the power of two
// below the value. If values are evenly spread, the root mean square of the relative error is about
// 0.41 units.
double variance(double unit) { return 0.41 * unit * 0.41 * unit; }

// Returns the dtype that a result is rounded to: that of an operand, that of a sum, or fp32, which
// adds no rounding to that of PSUM.
DType stored_dtype(const Formula& operation, const Instance& instance) {
  switch (operation.stored_as) {
    case Formula::StoredAs::kOperandDtype:
      return instance.options.dtype;
    case Formula::StoredAs::kSumDtype:
      return instance.options.accumulate;
    case Formula::StoredAs::kPsum:
      return DType::kF32;
  }
  return DType::kF32;
}

// Returns how many terms a sum has, which is the number of rows of the weight.
int64_t contraction_of(const Formula& product, const Instance& instance) {
  const kernels::OperandDescription& weight = operand_of(*instance.kernel, product.operand);
  return dimension_of(instance.shape, kernels::contraction_of(weight.layout.rows));
}

// A sum over experts rounds each product and each sum to fp32, and its result once more.
OperationError error_of_experts(const Instance& instance, double stored) {
  const auto experts = static_cast<double>(instance.shape.D);
  return {.bound = kSecondOrder * ((experts + 1) * kUnitFp32 + stored),
          .variance = variance(stored)};
}

// Without a block the whole contraction stays in PSUM and is rounded once.
OperationError error_of_product(const Formula& product, const Instance& instance) {
  const int64_t contraction = contraction_of(product, instance);
  const int64_t block = product.block.empty() ? contraction : 128 * instance.tiling[product.block];
  const auto blocks = static_cast<double>(tile::ceil_div(contraction, block));
  const auto terms = static_cast<double>(contraction);
  const DType sums = instance.options.accumulate, stored = stored_dtype(product, instance);
  double bound = (terms + blocks) * kUnitFp32;
  if (sums == DType::kBF16) bound += blocks * kUnitBf16;
  if (stored == DType::kBF16) bound += kUnitBf16;
  // Partial sums have half of the final variance on average. They have three quarters if they start
  // from a value that is as large as what is added.
  const bool has_start = product.inputs.size() > 1;
  const double share = has_start ? 0.75 : 0.5;
  if (has_start) bound += kUnitFp32;  // The start value is one more addition.
  return {.bound = kSecondOrder * bound,
          .variance = variance(unit(stored)) + share * (blocks + 1) * variance(unit(sums)) +
                      share * terms * variance(kUnitFp32)};
}

// Independent errors add by their squares, and products pass the relative errors of their factors
// on unchanged. In an extended matrix only the new columns have the error of the product.
double variance_of(const Formula& formula, const Instance& instance) {
  double sum = error_of(formula, instance).variance;
  if (formula.operation == Operation::kAppended) {
    const kernels::MatrixLayout layout = operand_of(*instance.kernel, formula.operand).layout;
    const auto old_columns = static_cast<double>(dimension_of(instance.shape, layout.rows));
    const auto new_columns = static_cast<double>(dimension_of(instance.shape, layout.columns));
    sum *= new_columns / (old_columns + new_columns);
  }
  for (const Formula& part : formula.inputs) sum += variance_of(part, instance);
  return sum;
}

// Collects the weights of all products. Weights of an expression that several parts share are
// counted once.
void collect_weights(const Formula& formula, std::set<std::string>& weights) {
  if (formula.operation == Operation::kProduct || formula.operation == Operation::kAppended) {
    weights.insert(formula.operand);
  }
  for (const Formula& part : formula.inputs) collect_weights(part, weights);
}

}  // namespace

// Returns the error of this operation alone. The caller that walks the formula adds the errors of
// the parts.
OperationError error_of(const Formula& operation, const Instance& instance) {
  const double stored = unit(stored_dtype(operation, instance));
  switch (operation.operation) {
    case Operation::kOperand:
    case Operation::kFirstColumns:
    case Operation::kOtherColumns:
      return {};
    case Operation::kProduct:
    case Operation::kAppended:
      return error_of_product(operation, instance);
    case Operation::kSilu:
      return {.bound = kSecondOrder * (kSiluUnits * kUnitFp32 + stored),
              .variance = variance(stored)};
    case Operation::kTimes:
      return {.bound = kSecondOrder * stored, .variance = variance(stored)};
    case Operation::kExperts:
      return error_of_experts(instance, stored);
  }
  return {};
}

double expected_error(const Instance& instance) {
  return std::sqrt(variance_of(instance.kernel->formula, instance));
}

// The factor of five is assumed. It allows for inputs that round worse than independent roundings
// do on average, and is far below the error of a wrong kernel.
double tolerance(const Instance& instance) { return 5 * expected_error(instance); }

// In a mixture, a row is multiplied with the weights of its active experts.
double problem_flops(const kernels::Kernel& kernel, const kernels::KernelShape& shape) {
  const double rows =
      static_cast<double>(shape.M) * (kernel.experts ? static_cast<double>(shape.A) : 1.0);
  std::set<std::string> weights;
  collect_weights(kernel.formula, weights);
  double flops = 0;
  for (const std::string& name : weights) {
    const kernels::MatrixLayout weight = operand_of(kernel, name).layout;
    flops += 2 * rows *
             static_cast<double>(dimension_of(shape, kernels::contraction_of(weight.rows))) *
             static_cast<double>(dimension_of(shape, weight.columns));
  }
  return flops;
}

}  // namespace neuronmm::reference
