#include "fit/synthetic_weight.h"

#include <cstring>

#include "base/float16.h"
#include "base/result.h"
#include "ops/low_bit.h"

namespace neuronmm::fit {
namespace {

// The value is small enough that no product overflows in any dtype.
constexpr float kValue = 0.001f;

template <typename T>
void fill(std::vector<std::byte>& bytes, int64_t count, T value) {
  bytes.resize(static_cast<size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

SyntheticWeights::SyntheticWeights(int64_t max_rows, int64_t max_values, DType dtype)
    : max_rows_(max_rows),
      max_values_(max_values),
      dtype_(dtype == DType::kBF16 ? DType::kBF16 : DType::kF32) {
  if (dtype_ == DType::kBF16) {
    fill(floats_, max_values, bf16::from_float(kValue));
  } else {
    fill(floats_, max_values, kValue);
  }
  // The byte 0x55 is valid in every format: as a value of 8 bits, as a code of 6 bits, and as two
  // codes of 4 bits.
  fill(codes_, max_values, uint8_t{0x55});
  // The last group of every row may be shorter than the others.
  constexpr int64_t kSmallestGroup = 16;
  fill(groups_, max_values / kSmallestGroup + max_rows, ops::GroupOf4Bits{8, 15}.stored());
  fill(scales_, max_values / ops::kQuantGroup + max_rows, bf16::from_float(kValue));
}

ops::WeightView SyntheticWeights::weight(int64_t rows, int64_t columns,
                                         const std::optional<LowBitFormat>& format) const {
  NMM_CHECK(rows <= max_rows_ && rows * columns <= max_values_);
  const Shape shape = {rows, columns};
  if (!format) return TensorView{dtype_, shape, floats_.data()};
  const int64_t scales = (columns + ops::kQuantGroup - 1) / ops::kQuantGroup;
  const TensorView row_scales = {DType::kBF16, {rows, scales}, scales_.data()};
  if (format->bits != 4) return {*format, shape, codes_.data(), row_scales};
  const TensorView groups = {
      DType::kU8, {rows, ops::groups_of_row(*format, columns)}, groups_.data()};
  return {*format, shape, codes_.data(), row_scales, groups};
}

}  // namespace neuronmm::fit
