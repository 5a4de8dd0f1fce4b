#include "io/merged_tensor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/float16.h"

namespace neuronmm::io {
namespace {

// Columns whose sums stay in registers and the nearest cache. Assumed.
constexpr int64_t kColumns = 64;

}  // namespace

DType merged_dtype(const TensorView& base) {
  if (const MergedTensor* const merged = merged_tensor(base)) return merged->dtype();
  return base.dtype == DType::kF64 ? DType::kF32 : written_dtype(base.dtype);
}

const MergedTensor* merged_tensor(const TensorView& tensor) {
  return dynamic_cast<const MergedTensor*>(tensor.foreign);
}

MergedTensor::MergedTensor(const TensorView& base, LowRankUpdate update, DType dtype)
    : base_(base), update_(std::move(update)), dtype_(dtype), columns_(base.shape.back()) {
  NMM_CHECK(is_float(base.dtype) && base.shape.size() <= 2);
}

// A view's `data` counts the bytes that its rows would have from an address that is never read.
TensorView MergedTensor::view() const {
  return {DType::kForeign, base_.shape, reinterpret_cast<const std::byte*>(this), this};
}

int64_t MergedTensor::size_bytes(const Shape& shape) const {
  int64_t elements = 1;
  for (const int64_t side : shape) elements *= side;
  return elements * dtype_size_bytes(dtype_);
}

void MergedTensor::read(const TensorView& view, int64_t first, int64_t count, float* out) const {
  const auto begin = reinterpret_cast<uintptr_t>(view.data) - reinterpret_cast<uintptr_t>(this);
  int64_t at = static_cast<int64_t>(begin) / dtype_size_bytes(dtype_) + first;
  while (count > 0) {
    const int64_t column = at % columns_, here = std::min(count, columns_ - column);
    read_row(at / columns_, column, here, out);
    at += here;
    out += here;
    count -= here;
  }
}

void MergedTensor::read_row(int64_t row, int64_t first, int64_t count, float* out) const {
  if (update_.magnitudes == nullptr) {
    to_floats(base_, row * columns_ + first, count, out);
    add_product(row, first, count, out);
    return round(out, count);
  }
  std::vector<float> whole(static_cast<size_t>(columns_));
  to_floats(base_, row * columns_, columns_, whole.data());
  add_product(row, 0, columns_, whole.data());
  double squares = 0.0;
  for (const float value : whole) squares += double{value} * double{value};
  // PEFT divides by the norm, too, so that a row of zeros becomes NaN in both.
  const auto factor =
      static_cast<float>((*update_.magnitudes)[static_cast<size_t>(row)] / std::sqrt(squares));
  for (int64_t i = 0; i < count; ++i) out[i] = whole[static_cast<size_t>(first + i)] * factor;
  round(out, count);
}

void MergedTensor::add_product(int64_t row, int64_t first, int64_t count, float* out) const {
  if (update_.rank == 0) return;
  const float* const left = update_.left->data() + row * update_.rank;
  for (int64_t begin = 0; begin < count; begin += kColumns) {
    const int64_t some = std::min(kColumns, count - begin);
    const float* right = update_.right->data() + first + begin;
    float sums[kColumns] = {};
    for (int64_t k = 0; k < update_.rank; ++k, right += columns_) {
      for (int64_t i = 0; i < some; ++i) sums[i] += left[k] * right[i];
    }
    for (int64_t i = 0; i < some; ++i) out[begin + i] += update_.scale * sums[i];
  }
}

void MergedTensor::round(float* values, int64_t count) const {
  if (dtype_ == DType::kBF16) {
    for (int64_t i = 0; i < count; ++i) values[i] = bf16::from_float(values[i]).to_float();
  } else if (dtype_ == DType::kF16) {
    for (int64_t i = 0; i < count; ++i) values[i] = f16::from_float(values[i]).to_float();
  }
}

}  // namespace neuronmm::io
