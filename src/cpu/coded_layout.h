#pragma once
// How a panel of coded weights (base/coded_values.h) lies in memory. Its parts follow each other:
//
//   scales       32 columns of a group after those of the group before. They are fp16, bf16 or
//                fp32, whichever holds all of them exactly with the fewest bytes, or a byte and an
//                outer scale in fp16.
//   offsets      zero points or minimums in the same order: one number for the whole matrix, bytes,
//                fp16 or fp32, or a byte and an outer minimum in fp16.
//   codes        from a multiple of 64 bytes on, in steps of 16 rows k (4 bits) or 8 rows k (8
//                bits). A step has 64 words. Word 2 j + p holds the codes of column j for rows p,
//                p + 2, p + 4, ... of the step, lowest bits first, so that neighbouring rows are in
//                neighbouring words, as in a word of two bf16 weights.

#include <array>
#include <cstdint>
#include <vector>

#include "base/coded_values.h"

namespace neuronmm::cpu {

// The scales or the offsets of a panel.
struct CodedNumbers {
  enum class Type { kConstant, kFp32, kFp16, kBf16, kBytes, kNested };

  Type type = Type::kFp32;
  float constant = 0;
  // The first byte in a panel, and for kNested that of the outer numbers.
  int64_t first_byte = 0, first_outer_byte = 0;
};

class CodedLayout {
 public:
  static constexpr int64_t kStepWords = 64;

  CodedLayout() = default;
  // Chooses the layout of rows [first_row, first_row + rows). Reads all their scales and offsets.
  CodedLayout(const CodedValues& coded, int64_t first_row, int64_t rows);

  CodeKind kind() const { return kind_; }
  bool adds_minimum() const { return adds_minimum_; }
  const CodedNumbers& scales() const { return scales_; }
  const CodedNumbers& offsets() const { return offsets_; }
  int64_t groups_per_outer() const { return groups_per_outer_; }
  // Returns the table's bytes + 128.
  const std::array<uint8_t, 16>& table() const { return table_; }
  int64_t rows_of_step() const { return 8 * codes_per_byte(kind_); }
  // Returns whether all scales are powers of two and no step has rows of two groups, as in MXFP4. A
  // value is then a number of the table whose exponent changes.
  bool shifts_table() const { return shifts_table_; }
  // Returns the table in bf16, twice.
  const std::array<uint16_t, 32>& bf16_table() const { return bf16_table_; }
  // Returns the group of a row k, which may be one of those that fill up the last step.
  int32_t group(int64_t k) const { return group_of_row_[static_cast<size_t>(k)]; }
  // Returns the group of all rows of a step, or -1 if it has several.
  int32_t group_of_step(int64_t step) const { return group_of_step_[static_cast<size_t>(step)]; }
  // Returns the words of a panel before row k, which is a multiple of rows_of_step() or the number
  // of all rows.
  int64_t words_before(int64_t k) const {
    return header_words_ + (k + rows_of_step() - 1) / rows_of_step() * kStepWords;
  }
  // Packs up to 32 rows of the values, which become the columns of one panel.
  void pack_panel(const CodedValues& coded, int64_t first_row, int64_t rows, uint32_t* panel) const;

 private:
  class Packer;
  int64_t place_numbers(CodedNumbers& numbers, int64_t first_byte) const;
  void find_groups(const CodedValues& coded);

  CodeKind kind_ = CodeKind::kInt8;
  bool adds_minimum_ = false, shifts_table_ = false;
  int64_t groups_ = 0, groups_per_outer_ = 0, header_words_ = 0;
  CodedNumbers scales_, offsets_;
  std::array<uint8_t, 16> table_ = {};
  std::array<uint16_t, 32> bf16_table_ = {};
  std::vector<int32_t> group_of_row_, group_of_step_;
};

}  // namespace neuronmm::cpu
