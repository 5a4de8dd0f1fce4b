#pragma once
// Matrices in MXFP4 (OCP Microscaling Formats 1.0), as folders of gpt-oss store them: 32 values of
// a row share a scale. A byte holds two codes, the low half that of the even column. Bit 3 of a
// code is the sign, and the others select one of 0, 0.5, 1, 1.5, 2, 3, 4, 6. A scale byte s stands
// for 2^(s - 127).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/coded_values.h"

namespace neuronmm::io {

inline constexpr int64_t kMxfp4Group = 32;
// The values of the codes, doubled.
inline constexpr std::array<int8_t, 16> kE2M1Doubled = {0, 1,  2,  3,  4,  6,  8,  12,
                                                        0, -1, -2, -3, -4, -6, -8, -12};

// Twice the values are integers from -12 to 12, so the codes stand for a table of bytes with half
// of the scale, and the matrix has exactly the values of the file. The bytes must outlive it.
class Mxfp4Matrix : public CodedValues {
 public:
  // Row i is the row first + i * step of the tables: codes of columns / 2 bytes per row, and scales
  // of columns / 32 bytes per row. `groups` is the group of each column.
  Mxfp4Matrix(const std::byte* codes, const std::byte* scales, int64_t first, int64_t step,
              int64_t rows, std::shared_ptr<const std::vector<int32_t>> groups)
      : codes_(codes),
        scales_(scales),
        first_(first),
        step_(step),
        rows_(rows),
        groups_(std::move(groups)) {}

  // Returns the group of each of `columns` columns, a multiple of kMxfp4Group.
  static std::shared_ptr<const std::vector<int32_t>> groups_of(int64_t columns);

  std::string_view name() const override { return "MXFP4"; }
  CodeKind kind() const override { return CodeKind::kTable4; }
  const std::array<int8_t, 16>& table() const override;
  int64_t rows() const override { return rows_; }
  int64_t columns() const override { return std::ssize(*groups_); }
  int64_t groups() const override { return columns() / kMxfp4Group; }
  std::span<const int32_t> group_of_column() const override { return *groups_; }
  int64_t stored_bytes() const override { return rows_ * (columns() / 2 + groups()); }
  void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const override;
  void grid(int64_t row, float* scales, float* zeros) const override;

 private:
  const std::byte *codes_, *scales_;
  int64_t first_, step_, rows_;
  std::shared_ptr<const std::vector<int32_t>> groups_;
};

}  // namespace neuronmm::io
