#include "trainium/tile/program.h"

#include <algorithm>

namespace neuronmm::tile {

// The terms are sorted by loop and none is zero, so equal expressions have equal terms and the
// innermost loop is last.
Affine operator+(const Affine& a, const Affine& b) {
  Affine sum = a;
  sum.constant += b.constant;
  for (const auto& [loop, coefficient] : b.terms) {
    const auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                                   [id = loop](const auto& term) { return term.first == id; });
    if (same == sum.terms.end()) {
      sum.terms.emplace_back(loop, coefficient);
    } else {
      same->second += coefficient;
    }
  }
  std::erase_if(sum.terms, [](const auto& term) { return term.second == 0; });
  std::sort(sum.terms.begin(), sum.terms.end());
  return sum;
}

Affine operator-(const Affine& a, const Affine& b) { return a + b * -1; }

Affine operator*(const Affine& a, int64_t factor) {
  if (factor == 0) return 0;
  Affine product = a;
  product.constant *= factor;
  for (auto& [loop, coefficient] : product.terms) coefficient *= factor;
  return product;
}

bool operator==(const Affine& a, const Affine& b) {
  const Affine difference = a - b;
  return difference.constant == 0 && difference.terms.empty();
}

// Beyond the limit the size is 0 rather than negative.
int64_t Size::eval(std::span<const int64_t> loop_values) const {
  if (!limit) return max;
  return std::clamp<int64_t>(*limit - origin.eval(loop_values), 0, max);
}

// Returns the number of steps that cover what is left of the dimension.
int64_t Loop::trip_count(std::span<const int64_t> loop_values) const {
  if (!limit) return max;
  const int64_t left = *limit - origin.eval(loop_values);
  return std::clamp<int64_t>((left + step - 1) / step, 0, max);
}

// The first dimension is the partition, so the bytes per partition are the product of the other
// dimensions.
int64_t Buffer::free_bytes() const {
  int64_t bytes = dtype_size_bytes(dtype);
  for (size_t d = 1; d < shape.size(); ++d) bytes *= shape[d];
  return bytes;
}

// The strides are row-major, except for row tiles: the dimension of P runs over the rows of the
// input, and the one after it over tiles of these rows.
std::array<int64_t, kMaxDimensions> Buffer::strides() const {
  std::array<int64_t, kMaxDimensions> all{};
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) all[d] = stride;
  if (!row_tiles) return all;
  const size_t rows = shape.size() - 3;  // The dimension of P.
  const int64_t columns = shape.back();
  all[rows] = columns;
  all[rows + 1] = shape[rows] * columns;
  if (rows > 0) all[0] = matrix_rows * columns;
  return all;
}

}  // namespace neuronmm::tile
