#include "base/coded_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace neuronmm {
namespace {

constexpr int64_t kCodesAtOnce = 512;

std::array<float, 256> float8_table() {
  std::array<float, 256> table;
  for (size_t code = 0; code < table.size(); ++code) {
    const int exponent = static_cast<int>(code >> 3 & 15), fraction = static_cast<int>(code & 7);
    float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    if (exponent == 15 && fraction == 7) value = std::numeric_limits<float>::quiet_NaN();
    table[code] = code >= 128 ? -value : value;
  }
  return table;
}

// The scales and zero points of one row. Asking for them costs as much as decoding a group, so
// callers that read a row in pieces should read long ones.
struct Grid {
  explicit Grid(int64_t groups)
      : scales(static_cast<size_t>(groups)), zeros(static_cast<size_t>(groups)) {}
  std::vector<float> scales, zeros;
};

void decode(const CodedValues& values, int64_t row, int64_t first, int64_t count, const Grid& grid,
            float* out) {
  std::array<uint8_t, kCodesAtOnce> codes;
  const std::span<const int32_t> group = values.group_of_column();
  const bool minimums = values.adds_minimum();
  const CodeKind kind = values.kind();  // a virtual call per element would take too long
  const std::array<int8_t, 16>& table = values.table();
  const auto value = [&](uint8_t code, float scale, float zero) {
    switch (kind) {
      case CodeKind::kFloat8:
        return scale * float8_value(code);
      case CodeKind::kTable4:
        return scale * static_cast<float>(table[code]);
      case CodeKind::kInt4:
      case CodeKind::kInt8:
        break;
    }
    const auto step = static_cast<float>(code);
    return minimums ? std::fma(scale, step, zero) : scale * (step - zero);
  };
  for (int64_t done = 0; done < count; done += kCodesAtOnce) {
    const int64_t piece = std::min(kCodesAtOnce, count - done);
    values.codes(row, first + done, piece, codes.data());
    for (int64_t i = 0; i < piece; ++i) {
      const auto g = static_cast<size_t>(group[static_cast<size_t>(first + done + i)]);
      out[done + i] = value(codes[static_cast<size_t>(i)], grid.scales[g], grid.zeros[g]);
    }
  }
}

}  // namespace

float float8_value(uint8_t code) {
  static const std::array<float, 256> table = float8_table();
  return table[code];
}

int64_t CodedValues::row_bytes() const {
  return std::max<int64_t>(1, stored_bytes() / std::max<int64_t>(1, rows()));
}

TensorView CodedValues::view(int64_t first, int64_t count) const {
  const auto* const base = reinterpret_cast<const std::byte*>(this);
  return {DType::kForeign, {count, columns()}, base + first * row_bytes(), this};
}

int64_t CodedValues::first_row(const TensorView& view) const {
  return (view.data - reinterpret_cast<const std::byte*>(this)) / row_bytes();
}

std::string_view CodedValues::name() const {
  switch (kind()) {
    case CodeKind::kInt4:
      return "4 bits";
    case CodeKind::kInt8:
      return "8 bits";
    case CodeKind::kFloat8:
      return "F8_E4M3";
    case CodeKind::kTable4:
      return "4 bits of a table";
  }
  return {};
}

int64_t CodedValues::size_bytes(const Shape& shape) const { return shape.at(0) * row_bytes(); }

void CodedValues::read(const TensorView& view, int64_t first, int64_t count, float* out) const {
  Grid of_row(groups());
  first += first_row(view) * columns();
  while (count > 0) {
    const int64_t row = first / columns(), column = first % columns();
    const int64_t piece = std::min(count, columns() - column);
    grid(row, of_row.scales.data(), of_row.zeros.data());
    decode(*this, row, column, piece, of_row, out);
    first += piece;
    out += piece;
    count -= piece;
  }
}

const std::array<int8_t, 16>& CodedValues::table() const {
  static const std::array<int8_t, 16> none = {};
  return none;
}

void CodedValues::factors(int64_t /*row*/, const GridFactors& /*out*/) const {
  NMM_CHECK(groups_per_outer() == 0);
}

int64_t CodedRows::stored_bytes() const {
  return all_.stored_bytes() * rows() / std::max<int64_t>(1, all_.rows());
}

}  // namespace neuronmm
