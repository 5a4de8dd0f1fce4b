#include "io/twin_tables.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
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
// one row. Formats whose scales are searched for round a few values to a farther step, and two
// grids of which one has half the step of the other differ by a fifth more. Measured on
// Qwen2.5-Coder-0.5B, Q5_0 against Q8_0: 0.96 over all rows, at most 1.09 in one row.
constexpr double kMostOfAll = 1.35, kMostOfRow = 1.5;
// The standard deviations of chance that are added to the limit of one row. The mean of n squares
// of uniform errors scatters by sqrt(0.8 / n).
constexpr double kDeviations = 6.0, kVarianceOfSquare = 0.8;
// The rows that are compared before all others.
constexpr int64_t kFirstRows = 64;
// No format that is read here has squared errors of more than this share of the values' squares.
constexpr double kMostOfValues = 0.1;
// A share of the mean square of the values, below which a difference is one of arithmetic.
constexpr double kArithmetic = 1e-13;

// Returns the largest relative error of a value that was rounded to the dtype.
float relative_error(DType dtype) {
  if (dtype == DType::kBF16) return 0x1p-8f;
  if (dtype == DType::kF16) return 0x1p-11f;
  return 0x1p-23f;  // of values that were computed as multiple * step + lowest
}

// Returns the sum of the squared errors of rounding values to the dtype. Values of the dtype are
// twice the largest relative error times the power of two below them apart.
double rounding_to_dtype(const std::vector<float>& values, DType dtype) {
  double sum = 0.0;
  for (const float value : values) {
    const auto power = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0x7F800000u);
    sum += static_cast<double>(power) * power;
  }
  const double spacing = 2.0 * relative_error(dtype);
  return sum * spacing * spacing / 12.0;
}

// Returns the step of the coarsest grid that holds all values of the block, or 0 if there is none
// that can be told from chance. The values of a constant block are on every grid; their step is 0.
float step_of(const float* values, int64_t count, float error) {
  const auto [lowest, highest] = std::minmax_element(values, values + count);
  const float low = *lowest, span = *highest - low;
  if (!(span > 0.0f) || count < kBlock) return 0.0f;
  const float largest = std::max(std::abs(low), std::abs(*highest));
  for (int steps = 1; steps <= kMostSteps; ++steps) {
    const float step = span / static_cast<float>(steps), per_step = 1.0f / step;
    if (2.0f * error * largest * per_step > kMostError) return 0.0f;
    int64_t i = 0;
    for (; i < count; ++i) {
      const float q = (values[i] - low) * per_step;
      // The value and both ends of the grid were rounded to the dtype.
      const float tolerance = error * (std::abs(values[i]) + largest) * per_step;
      if (std::abs(q - std::nearbyint(q)) > tolerance) break;
    }
    if (i == count) return step;
  }
  return 0.0f;
}

// Returns the sum of the squared errors that rounding has caused in one row.
double rounding_of_row(const std::vector<float>& row, DType dtype) {
  double sum = rounding_to_dtype(row, dtype);
  const auto columns = std::ssize(row);
  for (int64_t first = 0; first < columns; first += kBlock) {
    const int64_t count = std::min(kBlock, columns - first);
    const double step = step_of(row.data() + first, count, relative_error(dtype));
    sum += static_cast<double>(count) * step * step / 12.0;
  }
  return sum;
}

// Sums of squares over rows.
struct Sums {
  double values = 0.0, difference = 0.0;
  // The errors that rounding has caused in the coarser and in the finer table.
  double coarser = 0.0, finer = 0.0;

  void add(const Sums& other) {
    values += other.values;
    difference += other.difference;
    coarser += other.coarser;
    finer += other.finer;
  }
};

class Comparison {
 public:
  Comparison(const TableRows& coarser, const TableRows& finer, int64_t columns)
      : coarser_(coarser), finer_(finer), a_(static_cast<size_t>(columns)), b_(a_.size()) {
    const auto n = static_cast<double>(std::max<int64_t>(1, columns));
    limit_ = kMostOfRow + kDeviations * std::sqrt(kVarianceOfSquare / n);
  }

  // Adds a row. Returns false if its tables differ by more than rounding. The grids of the finer
  // table, which are many, are searched only if `both` is set or the coarser one does not explain
  // the difference.
  bool add(int64_t row, bool both) {
    coarser_.read(row, a_.data());
    finer_.read(row, b_.data());
    Sums of_row;
    for (size_t j = 0; j < a_.size(); ++j) {
      const double difference = static_cast<double>(a_[j]) - b_[j];
      of_row.difference += difference * difference;
      of_row.values += static_cast<double>(b_[j]) * b_[j];
    }
    if (!std::isfinite(of_row.values) || !std::isfinite(of_row.difference)) return false;
    if (of_row.difference > kMostOfValues * of_row.values) return false;
    const double slack = kArithmetic * of_row.values;
    const auto explained = [&] {
      return of_row.difference <= limit_ * (of_row.coarser + of_row.finer) + slack;
    };
    of_row.coarser = rounding_of_row(a_, coarser_.dtype);
    if (both || !explained()) of_row.finer = rounding_of_row(b_, finer_.dtype);
    sums_.add(of_row);
    return explained();
  }

  const Sums& sums() const { return sums_; }

 private:
  const TableRows &coarser_, &finer_;
  std::vector<float> a_, b_;
  double limit_ = 0.0;
  Sums sums_;
};

// Compares a few rows. Returns nothing if one of them differs by more than rounding.
std::optional<Sums> compare_first_rows(const TableRows& first, const TableRows& second,
                                       int64_t rows, int64_t columns) {
  Comparison sample(first, second, columns);
  const int64_t count = std::min(kFirstRows, rows);
  for (int64_t i = 0; i < count; ++i) {
    if (!sample.add(i * rows / count, true)) return std::nullopt;
  }
  return sample.sums();
}

}  // namespace

std::optional<TwinTables> find_twins(const TableRows& first, const TableRows& second, int64_t rows,
                                     int64_t columns) {
  const auto sample = compare_first_rows(first, second, rows, columns);
  if (!sample) return std::nullopt;
  const bool second_is_finer = sample->finer < sample->coarser;
  const TableRows& coarser = second_is_finer ? first : second;
  const TableRows& finer = second_is_finer ? second : first;
  std::atomic<bool> same = true;
  std::mutex mutex;
  Sums sums;
  parallel_ranges(rows, [&](int64_t begin, int64_t end) {
    Comparison comparison(coarser, finer, columns);
    for (int64_t row = begin; row < end && same; ++row) {
      if (!comparison.add(row, false)) same = false;
    }
    const std::scoped_lock lock(mutex);
    sums.add(comparison.sums());
  });
  if (!same) return std::nullopt;
  // The finer table's share of the errors is that of the sample.
  const double both = sample->coarser + sample->finer;
  const double larger = std::max(sample->coarser, sample->finer);
  const double rounding = larger > 0.0 ? sums.coarser * both / larger : 0.0;
  if (sums.difference > kMostOfAll * rounding + kArithmetic * sums.values) return std::nullopt;
  const double per_value = sums.values > 0.0 ? 1.0 / sums.values : 0.0;
  return TwinTables{.difference = std::sqrt(sums.difference * per_value),
                    .rounding = std::sqrt(rounding * per_value),
                    .second_is_finer = second_is_finer};
}

std::string twins_text(const TwinTables& twins, const TableRows& first, const TableRows& second) {
  const std::string& kept = (twins.second_is_finer ? second : first).name;
  if (twins.difference == 0.0) {
    return fmt::format("{} and {} are equal, so they are one table (tie_word_embeddings true)",
                       first.name, second.name);
  }
  return fmt::format(
      "{} and {} hold the same table, each with its own rounding: only {} is kept, which is "
      "rounded more finely (tie_word_embeddings true; they differ by {:.2g} of their size, and "
      "rounding explains {:.2g})",
      first.name, second.name, kept, twins.difference, twins.rounding);
}

}  // namespace neuronmm::io
