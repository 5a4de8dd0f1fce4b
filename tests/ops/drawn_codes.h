#pragma once
// Random coded values in memory, for tests that need such weights without a folder.

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/coded_values.h"
#include "base/float16.h"

namespace neuronmm {

// How scales, and minimums if there are any, are stored. Nested ones are products of an fp16 number
// and a byte, and three groups share the fp16 number. Powers of two are positive, and the table has
// a 0 then, as in MXFP4.
enum class DrawnGrid { kFp32, kFp16, kBf16, kFp16Minimums, kNestedMinimums, kNested, kPowersOfTwo };

// Codes of every value, scales of both signs, and zero points within and beyond the codes. The
// groups of columns are in order, or permuted.
class DrawnCodes : public CodedValues {
 public:
  static constexpr int64_t kGroupsPerOuter = 3;
  DrawnCodes(CodeKind kind, int64_t rows, int64_t columns, int64_t group_size, bool permuted,
             std::mt19937_64& random, DrawnGrid grid = DrawnGrid::kFp32)
      : kind_(kind), grid_(grid), rows_(rows), columns_(columns) {
    groups_ = (columns + group_size - 1) / group_size;
    for (int64_t k = 0; k < columns; ++k) {
      group_of_column_.push_back(static_cast<int32_t>(k / group_size));
    }
    if (permuted) std::shuffle(group_of_column_.begin(), group_of_column_.end(), random);
    const uint64_t codes = codes_per_byte(kind) == 2 ? 16 : 256;
    for (int8_t& value : table_) value = static_cast<int8_t>(random());
    if (grid == DrawnGrid::kPowersOfTwo) table_[random() % table_.size()] = 0;
    for (int64_t i = 0; i < rows * columns; ++i) {
      auto code = static_cast<uint8_t>(random() % codes);
      if (kind == CodeKind::kFloat8 && (code & 127) == 127) code = 0;  // NaN
      codes_.push_back(code);
    }
    for (int64_t i = 0; i < rows * groups_; ++i) draw_group(i, codes, random);
  }

  CodeKind kind() const override { return kind_; }
  int64_t rows() const override { return rows_; }
  int64_t columns() const override { return columns_; }
  int64_t groups() const override { return groups_; }
  std::span<const int32_t> group_of_column() const override { return group_of_column_; }
  int64_t stored_bytes() const override { return rows_ * columns_; }
  void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const override {
    std::copy_n(codes_.begin() + row * columns_ + first, count, out);
  }
  void grid(int64_t row, float* scales, float* zeros) const override {
    std::copy_n(scales_.begin() + row * groups_, groups_, scales);
    std::copy_n(zeros_.begin() + row * groups_, groups_, zeros);
  }
  bool adds_minimum() const override {
    return grid_ == DrawnGrid::kFp16Minimums || grid_ == DrawnGrid::kNestedMinimums;
  }
  const std::array<int8_t, 16>& table() const override { return table_; }
  int64_t groups_per_outer() const override { return nested() ? kGroupsPerOuter : 0; }
  void factors(int64_t row, const GridFactors& out) const override {
    for (int64_t g = 0; g < groups_; ++g) {
      const auto at = static_cast<size_t>(row * groups_ + g);
      out.scale_bytes[g] = scale_bytes_[at];
      out.minimum_bytes[g] = minimum_bytes_[at];
      out.outer_scales[g / kGroupsPerOuter] = outer_scales_[at];
      out.outer_minimums[g / kGroupsPerOuter] = outer_minimums_[at];
    }
  }
  // Returns the value of one element by the formula, in fp64 and rounded once.
  float value(int64_t row, int64_t column) const {
    const auto group = static_cast<int64_t>(group_of_column_[static_cast<size_t>(column)]);
    const auto at = static_cast<size_t>(row * groups_ + group);
    const uint8_t code = codes_[static_cast<size_t>(row * columns_ + column)];
    if (kind_ == CodeKind::kFloat8) return scales_[at] * float8_value(code);
    if (kind_ == CodeKind::kTable4) return scales_[at] * static_cast<float>(table_[code]);
    const double scale = scales_[at], zero = zeros_[at];
    return static_cast<float>(adds_minimum() ? scale * code + zero : scale * (code - zero));
  }

  uint8_t& code(int64_t row, int64_t column) {
    return codes_[static_cast<size_t>(row * columns_ + column)];
  }

 private:
  bool nested() const { return grid_ == DrawnGrid::kNestedMinimums || grid_ == DrawnGrid::kNested; }
  static float rounded(DrawnGrid grid, float value) {
    if (grid == DrawnGrid::kFp32) return value;
    if (grid == DrawnGrid::kPowersOfTwo) return std::exp2(std::floor(200 * value));
    return grid == DrawnGrid::kBf16 ? bf16::from_float(value).to_float()
                                    : f16::from_float(value).to_float();
  }
  void draw_group(int64_t index, uint64_t codes, std::mt19937_64& random) {
    std::uniform_real_distribution<float> number(-0.1f, 0.1f);
    const bool has_zeros = kind_ == CodeKind::kInt4 || kind_ == CodeKind::kInt8;
    const float zero = has_zeros ? static_cast<float>(random() % (codes + 1)) : 0.0f;
    if (!nested()) {
      scales_.push_back(rounded(grid_, number(random)));
      zeros_.push_back(adds_minimum() ? rounded(grid_, number(random)) : zero);
      return;
    }
    const bool begins = index % groups_ % kGroupsPerOuter == 0;
    outer_scales_.push_back(begins ? rounded(grid_, number(random)) : outer_scales_.back());
    outer_minimums_.push_back(begins ? rounded(grid_, number(random)) : outer_minimums_.back());
    scale_bytes_.push_back(static_cast<int8_t>(random() % 128 - 64));
    minimum_bytes_.push_back(static_cast<int8_t>(random() % 128 - 64));
    scales_.push_back(outer_scales_.back() * static_cast<float>(scale_bytes_.back()));
    const float minimum = outer_minimums_.back() * static_cast<float>(minimum_bytes_.back());
    zeros_.push_back(adds_minimum() ? minimum : 0.0f);
  }

  CodeKind kind_;
  DrawnGrid grid_;
  int64_t rows_, columns_, groups_ = 0;
  std::array<int8_t, 16> table_;
  std::vector<int8_t> scale_bytes_, minimum_bytes_;
  std::vector<float> outer_scales_, outer_minimums_;
  std::vector<int32_t> group_of_column_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, zeros_;
};

}  // namespace neuronmm
