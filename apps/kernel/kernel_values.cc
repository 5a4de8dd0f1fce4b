// The bound follows every rounding: a unit of the operands' dtype where a result is kept in it, of
// the accumulate dtype per block of a contraction, and of fp32 per product (Higham, Accuracy and
// Stability of Numerical Algorithms, section 3.1; 1.02 covers the terms of second order).

#include "kernel/kernel_values.h"

#include <chrono>
#include <cmath>
#include <map>
#include <random>

#include "base/float16.h"
#include "base/parallel.h"
#include "trainium/simulator/interpreter.h"

namespace neuronmm::apps {
namespace {

constexpr double kMostFlops = 0x1p38;     // some 10 s on a few cores
constexpr double kMostElements = 0x1p28;  // 1 GiB of operands as fp32
constexpr double kRowsFlops = 0x1p32;     // that the fp64 computation may take
constexpr double kUnitFp32 = 0x1p-24, kUnitBf16 = 0x1p-8;
constexpr uint32_t kSeed = 1;

using Operands = std::map<std::string, Matrix, std::less<>>;

double unit(DType dtype) { return dtype == DType::kBF16 ? kUnitBf16 : kUnitFp32; }

// A rounding is off by up to a unit times the power of two below the value; evenly spread, the
// relative error's rms is about 0.41 units. Sums in PSUM round far less than their operands.
double variance(DType dtype) { return 0.41 * unit(dtype) * 0.41 * unit(dtype); }

// value ± error for each element of one row.
struct BoundedRow {
  std::vector<double> value, error;
  double variance = 0;  // of the relative error that independent roundings would make
  explicit BoundedRow(int64_t size) : value(static_cast<size_t>(size)), error(value.size()) {}
};

class Exact {
 public:
  Exact(const KernelSettings& settings, const Operands& operands)
      : s_(settings), operands_(operands) {}

  BoundedRow row(BoundedRow x) const {
    if (operands_.contains("w_gate")) return dense_mlp(x);
    if (!s_.kernel->has_rank) return multiply(x, "w", "BK", s_.options.dtype);
    if (!operands_.contains("u_gate")) return chain(x, "u", "v", "", s_.options.dtype);
    const bool whole = operands_.contains("u_down");
    const std::string up = whole ? "up." : "";
    const BoundedRow h = gated(chain(x, "u_gate", "v_gate", up, s_.options.accumulate),
                               chain(x, "u_up", "v_up", up, s_.options.accumulate));
    return whole ? chain(h, "u_down", "v_down", "down.", s_.options.dtype) : h;
  }

 private:
  BoundedRow chain(const BoundedRow& x, std::string_view u, std::string_view v,
                   const std::string& prefix, DType result) const {
    return multiply(multiply(x, u, prefix + "BK", s_.options.dtype), v, prefix + "Br", result);
  }

  BoundedRow dense_mlp(const BoundedRow& x) const {
    const BoundedRow h = gated(multiply(x, "w_gate", "up.BK", s_.options.accumulate),
                               multiply(x, "w_up", "up.BK", s_.options.accumulate));
    return multiply(h, "w_down", "down.BK", s_.options.dtype);
  }

  // Blocks of a contraction over K; kernels without Br use BK for both, others keep it in PSUM.
  int64_t blocks(int64_t K, const std::string& parameter) const {
    for (const std::string_view name : {std::string_view(parameter), std::string_view("BK")}) {
      for (const auto& [present, tiles] : s_.tiling.values()) {
        if (present == name) return tile::ceil_div(K, 128 * tiles);
      }
    }
    return 1;
  }

  BoundedRow multiply(const BoundedRow& x, std::string_view weight, const std::string& parameter,
                      DType result) const {
    const Matrix& w = operands_.find(weight)->second;
    const auto n = static_cast<double>(blocks(w.rows(), parameter));
    double relative = (static_cast<double>(w.rows()) + n) * kUnitFp32;
    if (s_.options.accumulate == DType::kBF16) relative += n * kUnitBf16;
    if (result == DType::kBF16) relative += kUnitBf16;
    relative *= 1.02;
    BoundedRow y(w.columns());
    y.variance = x.variance + variance(result) + (n + 1) / 2 * variance(s_.options.accumulate);
    for (int64_t k = 0; k < w.rows(); ++k) {
      const double value = x.value[static_cast<size_t>(k)], error = x.error[static_cast<size_t>(k)];
      const double bound = error + relative * (std::fabs(value) + error);
      const float* row = w.row(k);
      for (size_t j = 0; j < y.value.size(); ++j) {
        const auto factor = static_cast<double>(row[j]);
        y.value[j] += value * factor;
        y.error[j] += bound * std::fabs(factor);
      }
    }
    return y;
  }

  BoundedRow gated(const BoundedRow& gate, const BoundedRow& up) const {
    constexpr double kSlope = 1.1;  // |silu'| < 1.0998
    // fp32: silu itself is computed to a few units.
    const bool fp32_sums = s_.options.accumulate == DType::kF32;
    const double relative =
        1.02 * ((fp32_sums ? 16 * kUnitFp32 : kUnitBf16) + unit(s_.options.dtype));
    BoundedRow h(static_cast<int64_t>(gate.value.size()));
    h.variance =
        gate.variance + up.variance + variance(s_.options.dtype) + variance(s_.options.accumulate);
    for (size_t j = 0; j < h.value.size(); ++j) {
      const double g = gate.value[j], u = up.value[j];
      const double silu = g / (1 + std::exp(-g)), silu_error = kSlope * gate.error[j];
      const double u_most = std::fabs(u) + up.error[j];
      h.value[j] = silu * u;
      h.error[j] = silu_error * u_most + std::fabs(silu) * up.error[j] +
                   relative * (std::fabs(silu) + silu_error) * u_most;
    }
    return h;
  }

  const KernelSettings& s_;
  const Operands& operands_;
};

// X of standard normal values, weights scaled so that results stay of that size.
Operands random_operands(const KernelSettings& s) {
  std::mt19937 random(kSeed);
  Operands operands;
  for (const kernels::OperandDescription& operand : s.kernel->operands) {
    if (operand.role != tile::HbmRole::kInput) continue;
    const Shape shape = operand_shape(s, operand);
    const double scale = operand.name == "x" ? 1.0 : 1.0 / std::sqrt(static_cast<double>(shape[0]));
    std::normal_distribution<float> normal(0.0f, static_cast<float>(scale));
    Matrix matrix(shape[0], shape[1]);
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      const float value = normal(random);
      matrix.data()[i] =
          s.options.dtype == DType::kBF16 ? bf16::from_float(value).to_float() : value;
    }
    operands.emplace(operand.name, std::move(matrix));
  }
  return operands;
}

float element(const Matrix& matrix, bool transposed, int64_t row, int64_t column) {
  return transposed ? matrix.row(column)[row] : matrix.row(row)[column];
}

void compare_row(const Matrix& found, bool transposed, int64_t row, const BoundedRow& exact,
                 ValueReport& report) {
  for (size_t j = 0; j < exact.value.size(); ++j) {
    const auto value =
        static_cast<double>(element(found, transposed, row, static_cast<int64_t>(j)));
    const double error = std::fabs(value - exact.value[j]);
    if (error > report.largest_error) {
      report.largest_error = error;
      report.bound_there = exact.error[j];
    }
    const double share = exact.error[j] > 0 ? error / exact.error[j] : (error > 0 ? 2.0 : 0.0);
    report.worst_share = std::max(report.worst_share, share);
    report.rms_error += error * error;
    report.rms += exact.value[j] * exact.value[j];
  }
}

// Compares as many rows as kRowsFlops allow.
void compare(const KernelSettings& s, const Operands& operands, const Matrix& found,
             ValueReport& report) {
  const double affordable = kRowsFlops / problem_flops(s) * static_cast<double>(s.shape.M);
  report.rows =
      std::max<int64_t>(1, std::min(s.shape.M, static_cast<int64_t>(std::min(affordable, 0x1p40))));
  const auto& x_operand = s.kernel->operands.front();
  const Matrix& x = operands.find(x_operand.name)->second;
  const bool x_transposed = is_transposed(s, x_operand);
  const bool y_transposed = is_transposed(s, s.kernel->operands.back());
  std::vector<BoundedRow> rows(static_cast<size_t>(report.rows), BoundedRow(0));
  const auto row_number = [&](int64_t i) { return i * s.shape.M / report.rows; };
  parallel_for(report.rows, [&](int64_t i) {
    BoundedRow x_row(s.shape.K);
    for (int64_t k = 0; k < s.shape.K; ++k) {
      x_row.value[static_cast<size_t>(k)] =
          static_cast<double>(element(x, x_transposed, row_number(i), k));
    }
    rows[static_cast<size_t>(i)] = Exact(s, operands).row(std::move(x_row));
  });
  double elements = 0;
  for (int64_t i = 0; i < report.rows; ++i) {
    const BoundedRow& exact = rows[static_cast<size_t>(i)];
    compare_row(found, y_transposed, row_number(i), exact, report);
    elements += static_cast<double>(exact.value.size());
  }
  report.rms_error = std::sqrt(report.rms_error / elements);
  report.rms = std::sqrt(report.rms / elements);
  report.expected_rms_error = std::sqrt(rows.front().variance) * report.rms;
}

}  // namespace

Status check_values_size(const KernelSettings& s) {
  const auto flops = static_cast<double>(s.kernel->cost(s.shape, s.tiling, s.options).flops);
  if (flops > kMostFlops) {
    return fail("--values: {} takes {:.0f} GFLOP; at most {:.0f} are interpreted", shape_text(s),
                flops / 1e9, kMostFlops / 1e9);
  }
  double elements = 0;
  for (const kernels::OperandDescription& operand : s.kernel->operands) {
    const Shape shape = operand_shape(s, operand);
    elements += static_cast<double>(shape[0]) * static_cast<double>(shape[1]);
  }
  if (elements > kMostElements) {
    return fail("--values: {} has operands of {:.0f} million elements; at most {:.0f} are kept",
                shape_text(s), elements / 1e6, kMostElements / 1e6);
  }
  return {};
}

Result<ValueReport> compare_values(const KernelSettings& s) {
  NMM_TRY(check_values_size(s));
  const Operands operands = random_operands(s);
  simulator::Inputs inputs;
  for (const auto& [name, matrix] : operands) inputs.emplace(name, matrix.view());
  ValueReport report;
  const auto begin = std::chrono::steady_clock::now();
  NMM_ASSIGN(const simulator::Interpretation result, simulator::interpret(s.program, inputs));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  compare(s, operands, result.outputs.at(std::string(s.kernel->operands.back().name)), report);
  return report;
}

}  // namespace neuronmm::apps
