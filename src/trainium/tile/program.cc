#include "trainium/tile/program.h"

#include <algorithm>

namespace neuronmm::tile {

// Terms are sorted by loop and none is zero, so that equal expressions have equal terms and the
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

// Behind the limit nothing is left, and not a negative number of elements.
int64_t Size::eval(std::span<const int64_t> loop_values) const {
  if (!limit) return max;
  return std::clamp<int64_t>(*limit - origin.eval(loop_values), 0, max);
}

// As many steps as it takes to cover what is left.
int64_t Loop::trip_count(std::span<const int64_t> loop_values) const {
  if (!limit) return max;
  const int64_t left = *limit - origin.eval(loop_values);
  return std::clamp<int64_t>((left + step - 1) / step, 0, max);
}

// The first dimension is the partition; the others lie behind one another in it.
int64_t Buffer::free_bytes() const {
  int64_t bytes = dtype_size_bytes(dtype);
  for (size_t d = 1; d < shape.size(); ++d) bytes *= shape[d];
  return bytes;
}

// Row-major, but for row tiles, where partitions are rows and the tiles come further apart.
std::array<int64_t, kMaxDimensions> Buffer::strides() const {
  std::array<int64_t, kMaxDimensions> all{};
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) all[d] = stride;
  if (row_tiles) all[0] = shape[2], all[1] = shape[0] * shape[2];
  return all;
}

}  // namespace neuronmm::tile
