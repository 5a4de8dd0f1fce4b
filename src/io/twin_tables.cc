#include "io/twin_tables.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/parallel.h"

namespace neuronmm::io {
namespace {

// The values that are searched for one grid. Formats of GGUF share a step between 16 or 32 values.
constexpr int64_t kBlock = 16;
// The most steps between the lowest and the highest value of a block: those of 8 bits.
constexpr int kMostSteps = 255;
// A grid counts as found only if the error of a value is at most this share of a step. Values
// without a grid pass so strict a test of 16 values by chance about once in 10^8 blocks.
constexpr float kMostError = 0.15f;
// How much the mean squared difference may exceed what the roundings explain, over all rows and in
// one row. Formats whose scales are searched for round a few values to a farther step. Measured on
// Qwen2.5-Coder-0.5B, Q5_0 against Q8_0: 0.96 over all rows, at most 1.09 in one row.
constexpr double kMostOfAll = 1.15, kMostOfRow = 1.35;
// The standard deviations of chance that are added to the limit of one row. The mean of n squares
// of uniform errors scatters by sqrt(0.8 / n).
constexpr double kDeviations = 6.0, kVarianceOfSquare = 0.8;
// The rows that are compared before all others.
constexpr int64_t kFirstRows = 64;
// A share of the mean square of the values, below which a difference is one of arithmetic.
constexpr double kArithmetic = 1e-13;

// Returns the largest relative error of a value that was rounded to the dtype.
float relative_error(DType dtype) {
  if (dtype == DType::kBF16) return 0x1p-9f;
  if (dtype == DType::kF16) return 0x1p-12f;
  return 0x1p-23f;  // of values that were computed as multiple * step + lowest
}

// Returns the mean squared error of rounding `value` to the dtype. Its values are `unit` times the
// power of two below `value` apart.
double squared_error_of_dtype(float value, DType dtype) {
  const double spacing =
      2.0 * relative_error(dtype) * std::exp2(std::floor(std::log2(std::abs(value))));
  return value == 0.0f ? 0.0 : spacing * spacing / 12.0;
}

// Returns the step of the coarsest grid that holds all values of the block, or 0 if there is none
// that can be told from chance. The values of a constant block are on every grid; their step is 0.
float step_of(const float* values, int64_t count, float error) {
  const auto [lowest, highest] = std::minmax_element(values, values + count);
  const float low = *lowest, span = *highest - low;
  if (!(span > 0.0f) || count < kBlock) return 0.0f;
  const float largest = std::max(std::abs(low), std::abs(*highest));
  const float absolute = 3.0f * error * largest;
  for (int steps = 1; steps <= kMostSteps; ++steps) {
    const float step = span / static_cast<float>(steps), per_step = 1.0f / step;
    const float tolerance = absolute * per_step;
    if (tolerance > kMostError) return 0.0f;
    int64_t i = 0;
    for (; i < count; ++i) {
      const float q = (values[i] - low) * per_step;
      if (std::abs(q - std::nearbyint(q)) > tolerance) break;
    }
    if (i == count) return step;
  }
  return 0.0f;
}

// Returns the sum of the squared errors that rounding has caused in one row.
double rounding_of_row(const std::vector<float>& row, DType dtype) {
  double sum = 0.0;
  const auto columns = std::ssize(row);
  for (int64_t first = 0; first < columns; first += kBlock) {
    const int64_t count = std::min(kBlock, columns - first);
    const float* const values = row.data() + first;
    const double step = step_of(values, count, relative_error(dtype));
    if (step > 0.0) sum += static_cast<double>(count) * step * step / 12.0;
    for (int64_t i = 0; i < count; ++i) sum += squared_error_of_dtype(values[i], dtype);
  }
  return sum;
}

// Sums of squares over rows.
struct Sums {
  double values = 0.0, difference = 0.0, first = 0.0, second = 0.0;
};

class Comparison {
 public:
  Comparison(const TableRows& first, const TableRows& second, int64_t columns)
      : first_(first), second_(second), columns_(columns) {
    limit_ = kMostOfRow +
             kDeviations *
                 std::sqrt(kVarianceOfSquare / static_cast<double>(std::max<int64_t>(1, columns)));
  }

  // Adds the sums of a row. Returns false if the row differs by more than rounding.
  bool add(int64_t row, std::vector<float>& a, std::vector<float>& b, Sums& sums) const {
    a.resize(static_cast<size_t>(columns_));
    b.resize(static_cast<size_t>(columns_));
    first_.read(row, a.data());
    second_.read(row, b.data());
    double values = 0.0, difference = 0.0;
    for (size_t j = 0; j < a.size(); ++j) {
      const double d = static_cast<double>(a[j]) - b[j];
      difference += d * d;
      values += static_cast<double>(a[j]) * a[j];
    }
    if (!std::isfinite(values) || !std::isfinite(difference)) return false;
    // No format that is stored here has errors of a third of the values.
    if (difference > values / 9.0) return false;
    const double of_first = rounding_of_row(a, first_.dtype);
    const double of_second = rounding_of_row(b, second_.dtype);
    if (difference > limit_ * (of_first + of_second) + kArithmetic * values) return false;
    sums.values += values;
    sums.difference += difference;
    sums.first += of_first;
    sums.second += of_second;
    return true;
  }

 private:
  const TableRows &first_, &second_;
  int64_t columns_;
  double limit_;
};

}  // namespace

std::optional<TwinTables> find_twins(const TableRows& first, const TableRows& second, int64_t rows,
                                     int64_t columns) {
  const Comparison comparison(first, second, columns);
  std::vector<float> a, b;
  Sums ignored;
  for (int64_t i = 0; i < std::min(kFirstRows, rows); ++i) {
    if (!comparison.add(i * rows / std::min(kFirstRows, rows), a, b, ignored)) return std::nullopt;
  }
  std::atomic<bool> same = true;
  std::mutex mutex;
  Sums sums;
  parallel_ranges(rows, [&](int64_t begin, int64_t end) {
    std::vector<float> of_first, of_second;
    Sums own;
    for (int64_t row = begin; row < end && same; ++row) {
      if (!comparison.add(row, of_first, of_second, own)) same = false;
    }
    const std::scoped_lock lock(mutex);
    sums.values += own.values;
    sums.difference += own.difference;
    sums.first += own.first;
    sums.second += own.second;
  });
  if (!same) return std::nullopt;
  const double rounding = sums.first + sums.second;
  if (sums.difference > kMostOfAll * rounding + kArithmetic * sums.values) return std::nullopt;
  const double per_value = sums.values > 0.0 ? 1.0 / sums.values : 0.0;
  return TwinTables{.difference = std::sqrt(sums.difference * per_value),
                    .rounding = std::sqrt(rounding * per_value),
                    .second_is_finer = sums.second < sums.first};
}

std::string twins_text(const TwinTables& twins, const TableRows& first, const TableRows& second) {
  const std::string& kept = (twins.second_is_finer ? second : first).name;
  if (twins.difference == 0.0) {
    return fmt::format("{} and {} are equal, so they are one table (tie_word_embeddings true)",
                       first.name, second.name);
  }
  return fmt::format(
      "{} and {} differ by {:.2g} of their size, which their rounding explains ({:.2g}), so they "
      "are "
      "one table: {}, which is rounded more finely (tie_word_embeddings true)",
      first.name, second.name, twins.difference, twins.rounding, kept);
}

}  // namespace neuronmm::io
