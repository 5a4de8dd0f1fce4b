// Tests of rounded weights. Stored codes are read back as they were, and rounding to 6 and 4 bits
// is close to the best possible rounding.

#include "ops/low_bit.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ops/quantize.h"
#include "owned_tensor.h"

namespace neuronmm::ops {
namespace {

constexpr uint64_t kLowBitSeed = 20261123;
const LowBitFormat kFormats[] = {{8, 128}, {6, 128}, {4, 32}, {4, 16}};

int64_t ceil_of(int64_t columns, int64_t group) { return (columns + group - 1) / group; }

// Returns random codes, scales and groups that the format allows.
Codes random_codes(const LowBitFormat& format, int64_t rows, int64_t columns,
                   std::mt19937_64& random) {
  Codes codes = {format, rows, columns, {}, {}, {}};
  const uint64_t least = format.bits == 4 ? 0 : 1, most = (uint64_t{1} << format.bits) - 1;
  for (int64_t i = 0; i < rows * columns; ++i) {
    codes.q.push_back(static_cast<uint8_t>(least + random() % (most - least + 1)));
  }
  for (int64_t i = 0; i < rows * ceil_of(columns, kQuantGroup); ++i) {
    codes.scales.push_back(bf16::from_float(static_cast<float>(random() % 1000) / 1000));
  }
  const int64_t groups = format.bits == 4 ? rows * ceil_of(columns, format.group) : 0;
  while (std::ssize(codes.groups) < groups) {
    const auto byte = static_cast<uint8_t>(random());
    if (GroupOf4Bits::of(byte).fits()) codes.groups.push_back(byte);
  }
  return codes;
}

// Returns the value of a code by the definition in ops/low_bit.h.
double value_of(const Codes& codes, int64_t i, int64_t j) {
  const int q = codes.q[static_cast<size_t>(i * codes.columns + j)];
  int byte = q - (codes.format.bits == 8 ? 128 : 32);
  if (codes.format.bits == 4) {
    const int64_t per_row = ceil_of(codes.columns, codes.format.group);
    const int group = codes.groups[static_cast<size_t>(i * per_row + j / codes.format.group)];
    const int multiplier = group % 16 + 1;
    const double zero = std::floor(multiplier * (group / 16 + 8) / 2.0);
    byte = multiplier * q - static_cast<int>(zero);
  }
  const int64_t per_row = ceil_of(codes.columns, kQuantGroup);
  const bf16 scale = codes.scales[static_cast<size_t>(i * per_row + j / kQuantGroup)];
  return static_cast<double>(scale.to_float()) * byte;
}

TEST(LowBit, StoredCodesAreReadBackInEveryFormatAndWidth) {
  std::mt19937_64 random(kLowBitSeed);
  for (const LowBitFormat& format : kFormats) {
    for (const int64_t columns : {1, 2, 3, 4, 5, 15, 31, 33, 127, 128, 129, 130, 300}) {
      SCOPED_TRACE(testing::Message() << format.bits << " bits, columns " << columns);
      const Codes codes = random_codes(format, 3, columns, random);
      const QuantizedWeight weight = pack_codes(codes);
      EXPECT_EQ(std::ssize(weight.values), 3 * stored_row_bytes(format, columns));
      const WeightView view = weight.view();
      std::vector<double> doubles(static_cast<size_t>(columns));
      for (int64_t i = 0; i < 3; ++i) {
        to_doubles(view, i * columns, columns, doubles.data());
        for (int64_t j = 0; j < columns; ++j) {
          const double expected = value_of(codes, i, j);
          ASSERT_EQ(doubles[static_cast<size_t>(j)], expected) << i << ", " << j;
          ASSERT_EQ(codes.value(i, j), expected);
          ASSERT_LE(std::abs(codes.byte(i, j)), 127);
          float one = 0;
          to_floats(view, i * columns + j, 1, &one);  // reading may begin at any column
          ASSERT_EQ(double{one}, expected);
        }
      }
    }
  }
}

TEST(LowBit, BitsPerWeightAreThoseOfTheFormat) {
  std::mt19937_64 random(kLowBitSeed);
  const int64_t rows = 4, columns = 1024;
  const double expected[] = {8.125, 6.125, 4.375, 4.625};
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    const QuantizedWeight weight = pack_codes(random_codes(kFormats[i], rows, columns, random));
    EXPECT_EQ(8.0 * static_cast<double>(weight.view().stored_bytes()),
              expected[i] * static_cast<double>(rows * columns));
  }
}

double squared_error(const QuantizedWeight& weight, const std::vector<double>& values) {
  double sum = 0;
  std::vector<double> rounded(static_cast<size_t>(weight.columns));
  for (int64_t i = 0; i < weight.rows; ++i) {
    to_doubles(weight.view(), i * weight.columns, weight.columns, rounded.data());
    for (int64_t j = 0; j < weight.columns; ++j) {
      sum += std::pow(
          rounded[static_cast<size_t>(j)] - values[static_cast<size_t>(i * weight.columns + j)], 2);
    }
  }
  return sum;
}

// Returns the least squared error of a group with one scale, over all multipliers and zero points.
double least_of_group(const double* values, int64_t count, double scale) {
  double least = INFINITY;
  for (int byte = 0; byte < 256; ++byte) {
    const GroupOf4Bits group = GroupOf4Bits::of(static_cast<uint8_t>(byte));
    if (!group.fits()) continue;
    double sum = 0;
    for (int64_t j = 0; j < count; ++j) {
      double nearest = INFINITY;
      for (int q = 0; q < 16; ++q) {
        nearest = std::min(nearest, std::abs(values[j] - scale * group.byte(q)));
      }
      sum += nearest * nearest;
    }
    least = std::min(least, sum);
  }
  return least;
}

// Returns the least squared error of a row, over all bf16 scales from 1/200 to 1/40 of its largest
// magnitude.
double least_error(const std::vector<double>& values, int64_t group) {
  double largest = 0, least = INFINITY;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  bf16 scale = bf16::from_float(static_cast<float>(largest / 200));
  for (; scale.to_float() < largest / 40; ++scale.bits) {
    double sum = 0;
    for (int64_t first = 0; first < std::ssize(values); first += group) {
      sum += least_of_group(values.data() + first, std::min(group, std::ssize(values) - first),
                            scale.to_float());
    }
    least = std::min(least, sum);
  }
  return least;
}

// Returns a row of normal values, two one-sided rows and a row with an outlier.
std::vector<std::vector<double>> rows_of_values(int64_t columns, std::mt19937_64& random) {
  std::vector<std::vector<double>> rows;
  for (int kind = 0; kind < 4; ++kind) {
    const std::vector<float> values = random_values(columns, random, 0.02f);
    rows.emplace_back(values.begin(), values.end());
    for (double& value : rows.back()) {
      if (kind == 1) value = std::abs(value);
      if (kind == 2) value = -std::abs(value) - 0.01;
    }
    if (kind == 3) rows.back()[static_cast<size_t>(columns / 2)] = 0.3;
  }
  return rows;
}

TEST(LowBit, FourBitsHaveNearlyTheLeastErrorOfAllGrids) {
  std::mt19937_64 random(kLowBitSeed);
  for (const int64_t group : {16, 32}) {
    double sum = 0, least = 0;
    for (const std::vector<double>& row : rows_of_values(96, random)) {
      const double error = squared_error(quantize(row.data(), 1, 96, {4, group}), row);
      const double best = least_error(row, group);
      EXPECT_GE(error, best * 0.999);
      EXPECT_LE(error, best * 1.25);
      sum += error;
      least += best;
    }
    RecordProperty(fmt::format("times_the_best_{}", group), fmt::format("{:.3f}", sum / least));
    EXPECT_LE(sum, least * 1.12);
  }
}

TEST(LowBit, SixBitsHaveNearlyTheLeastErrorOfAllScales) {
  std::mt19937_64 random(kLowBitSeed);
  for (const std::vector<double>& row : rows_of_values(100, random)) {
    const double error = squared_error(quantize(row.data(), 1, 100, {6, 128}), row);
    double largest = 0, least = INFINITY;
    for (const double value : row) largest = std::max(largest, std::abs(value));
    bf16 scale = bf16::from_float(static_cast<float>(largest / 62));
    for (; scale.to_float() < largest / 25; ++scale.bits) {
      const double step = scale.to_float();
      double sum = 0;
      for (const double value : row) {
        sum += std::pow(value - step * std::clamp(std::nearbyint(value / step), -31.0, 31.0), 2);
      }
      least = std::min(least, sum);
    }
    EXPECT_GE(error, least * 0.999);
    EXPECT_LE(error, least * 1.05);
  }
}

// Some values lie beyond the given grid and get its outermost codes. A group with a NaN gets the
// scale NaN.
TEST(LowBit, QuantizeOntoAGridChoosesTheNearestCodes) {
  std::mt19937_64 random(kLowBitSeed);
  const int64_t rows = 4, columns = 150;
  for (const LowBitFormat& format : kFormats) {
    if (format.bits == 8) continue;
    Codes codes = random_codes(format, rows, columns, random);
    const QuantizedWeight grid = pack_codes(codes);
    std::vector<float> values = random_values(rows * columns, random, 10.0f);
    const OwnedTensor tensor(DType::kF32, {rows, columns}, values);
    const QuantizedWeight found = quantize_onto(tensor.view(), grid);
    EXPECT_EQ(found.multipliers, grid.multipliers);
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<double> row(static_cast<size_t>(columns));
      to_doubles(found.view(), i * columns, columns, row.data());
      for (int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<size_t>(i * columns + j);
        double least = INFINITY;
        const uint8_t kept = codes.q[at];
        for (int q = format.bits == 4 ? 0 : 1; q < 1 << format.bits; ++q) {
          codes.q[at] = static_cast<uint8_t>(q);
          least = std::min(least, std::abs(value_of(codes, i, j) - double{values[at]}));
        }
        codes.q[at] = kept;
        const double error = std::abs(row[static_cast<size_t>(j)] - double{values[at]});
        ASSERT_LE(error, least + 1e-5 * std::abs(double{values[at]})) << i << ", " << j;
      }
    }
    values[5] = std::numeric_limits<float>::quiet_NaN();
    const OwnedTensor with_nan(DType::kF32, {rows, columns}, values);
    const QuantizedWeight marked = quantize_onto(with_nan.view(), grid);
    EXPECT_TRUE(std::isnan(marked.scales[0].to_float()));
    EXPECT_EQ(marked.scales[1].to_float(), grid.scales[1].to_float());
  }
}

TEST(LowBit, ZerosStayAndNanAndInfinityShowInTheScale) {
  for (const LowBitFormat& format : kFormats) {
    std::vector<double> values(4 * 256);
    values[256 + 3] = std::numeric_limits<double>::quiet_NaN();
    values[256 + 4] = 1.0;
    values[2 * 256 + 200] = -std::numeric_limits<double>::infinity();
    values[3 * 256] = 1e60;  // beyond bf16
    const QuantizedWeight weight = quantize(values.data(), 4, 256, format);
    const auto scale = [&](size_t i) { return weight.scales[i].to_float(); };
    std::vector<double> zeros(256);
    to_doubles(weight.view(), 0, 256, zeros.data());
    EXPECT_EQ(zeros, std::vector<double>(256));
    EXPECT_FALSE(std::isfinite(scale(2)));
    EXPECT_EQ(scale(3), 0);
    EXPECT_EQ(scale(4), 0);
    EXPECT_FALSE(std::isfinite(scale(5)));
    EXPECT_FALSE(std::isfinite(scale(6)));
    for (const uint8_t group : weight.multipliers) EXPECT_TRUE(GroupOf4Bits::of(group).fits());
  }
}

}  // namespace
}  // namespace neuronmm::ops
