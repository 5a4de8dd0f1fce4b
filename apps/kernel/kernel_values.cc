#include "kernel/kernel_values.h"

#include <chrono>
#include <cmath>

#include "base/parallel.h"
#include "trainium/reference/errors.h"
#include "trainium/reference/values.h"
#include "trainium/simulator/interpreter.h"

namespace neuronmm::apps {
namespace {

constexpr double kMostFlops = 0x1p38;     // Takes about 10 s on a few cores.
constexpr double kMostElements = 0x1p28;  // Operands take 1 GiB as fp32.
constexpr double kRowsFlops = 0x1p32;     // The most FLOPs of the fp64 computation.
constexpr uint32_t kSeed = 1;

// Returns an element by token and feature, whatever the output's layout.
float element(const Matrix& matrix, bool transposed, int64_t row, int64_t column) {
  return transposed ? matrix.row(column)[row] : matrix.row(row)[column];
}

void compare_row(const Matrix& found, bool transposed, int64_t row,
                 const reference::BoundedRow& exact, ValueReport& report) {
  for (size_t j = 0; j < exact.value.size(); ++j) {
    const auto value =
        static_cast<double>(element(found, transposed, row, static_cast<int64_t>(j)));
    const double error = std::fabs(value - exact.value[j]);
    if (error > report.largest_error) {
      report.largest_error = error;
      report.bound_there = exact.error[j];
    }
    // A bound of 0 means an exact result, so any error exceeds it.
    const double share = exact.error[j] > 0 ? error / exact.error[j] : (error > 0 ? 2.0 : 0.0);
    report.worst_share = std::max(report.worst_share, share);
    report.rms_error += error * error;
    report.rms += exact.value[j] * exact.value[j];
  }
}

// Compares as many rows as kRowsFlops allow.
void compare(const KernelSettings& s, const reference::Operands& operands, const Matrix& found,
             ValueReport& report) {
  const double flops = reference::problem_flops(*s.kernel, s.shape);
  const double affordable = kRowsFlops / flops * static_cast<double>(s.shape.M);
  report.rows =
      std::max<int64_t>(1, std::min(s.shape.M, static_cast<int64_t>(std::min(affordable, 0x1p40))));
  const bool transposed = layout_of(*s.kernel, output_of(*s.kernel), s.options).transposed();
  std::vector<reference::BoundedRow> rows(static_cast<size_t>(report.rows),
                                          reference::BoundedRow(0));
  // The compared rows are spread over all rows, so that they cover every block.
  const auto row_number = [&](int64_t i) { return i * s.shape.M / report.rows; };
  parallel_for(report.rows, [&](int64_t i) {
    rows[static_cast<size_t>(i)] = reference::exact_row(s, operands, row_number(i));
  });
  double elements = 0;
  for (int64_t i = 0; i < report.rows; ++i) {
    const reference::BoundedRow& exact = rows[static_cast<size_t>(i)];
    compare_row(found, transposed, row_number(i), exact, report);
    elements += static_cast<double>(exact.value.size());
  }
  report.rms_error = std::sqrt(report.rms_error / elements);
  report.rms = std::sqrt(report.rms / elements);
  report.expected_rms_error = reference::expected_error(s) * report.rms;
}

}  // namespace

// Refuses a kernel that would take minutes to interpret, before anything runs.
Status check_values_size(const KernelSettings& s) {
  const auto flops = static_cast<double>(s.kernel->cost(s.shape, s.tiling, s.options).flops);
  if (flops > kMostFlops) {
    return fail("--values: {} takes {:.0f} GFLOP; at most {:.0f} are interpreted", shape_text(s),
                flops / 1e9, kMostFlops / 1e9);
  }
  double elements = 0;
  for (const kernels::OperandDescription& operand : s.kernel->operands) {
    const Shape shape = shape_of(s.shape, operand.layout);
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
  const reference::Operands operands = reference::random_operands(s, kSeed);
  simulator::Inputs inputs;
  for (const auto& [name, matrix] : operands) inputs.emplace(name, matrix.view());
  ValueReport report;
  const auto begin = std::chrono::steady_clock::now();
  NMM_ASSIGN(const simulator::Interpretation result, simulator::interpret(s.program, inputs));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  compare(s, operands, result.outputs.at(std::string(output_of(*s.kernel).name)), report);
  return report;
}

}  // namespace neuronmm::apps
