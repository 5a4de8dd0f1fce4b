#pragma once
// Random coded values in memory, for tests that need such weights without a folder.

#include <algorithm>
#include <random>
#include <vector>

#include "base/coded_values.h"

namespace neuronmm {

// Codes of every value, scales of both signs, and zero points within and beyond the codes. The
// groups of columns are in order, or permuted.
class DrawnCodes : public CodedValues {
 public:
  DrawnCodes(CodeKind kind, int64_t rows, int64_t columns, int64_t group_size, bool permuted,
             std::mt19937_64& random)
      : kind_(kind), rows_(rows), columns_(columns) {
    groups_ = (columns + group_size - 1) / group_size;
    for (int64_t k = 0; k < columns; ++k) {
      group_of_column_.push_back(static_cast<int32_t>(k / group_size));
    }
    if (permuted) std::shuffle(group_of_column_.begin(), group_of_column_.end(), random);
    const uint64_t codes = kind == CodeKind::kInt4 ? 16 : 256;
    for (int64_t i = 0; i < rows * columns; ++i) {
      auto code = static_cast<uint8_t>(random() % codes);
      if (kind == CodeKind::kFloat8 && (code & 127) == 127) code = 0;  // NaN
      codes_.push_back(code);
    }
    std::uniform_real_distribution<float> scale(-0.1f, 0.1f);
    for (int64_t i = 0; i < rows * groups_; ++i) {
      scales_.push_back(scale(random));
      zeros_.push_back(kind == CodeKind::kFloat8 ? 0 : static_cast<float>(random() % (codes + 1)));
    }
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
  // Returns the value of one element by the formula.
  float value(int64_t row, int64_t column) const {
    const auto group = static_cast<int64_t>(group_of_column_[static_cast<size_t>(column)]);
    const auto at = static_cast<size_t>(row * groups_ + group);
    const uint8_t code = codes_[static_cast<size_t>(row * columns_ + column)];
    if (kind_ == CodeKind::kFloat8) return scales_[at] * float8_value(code);
    return scales_[at] * (static_cast<float>(code) - zeros_[at]);
  }

  uint8_t& code(int64_t row, int64_t column) {
    return codes_[static_cast<size_t>(row * columns_ + column)];
  }

 private:
  CodeKind kind_;
  int64_t rows_, columns_, groups_ = 0;
  std::vector<int32_t> group_of_column_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, zeros_;
};

}  // namespace neuronmm
