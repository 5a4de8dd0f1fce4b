#include "ops/weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/low_bit.h"

namespace neuronmm::ops {
namespace {

// Writes scale · byte for elements [first, first + count) of one row. The products have at most 15
// significant bits, so that they are exact in fp32 and fp64. Each group of 128 columns has a scale
// of its own.
template <typename Out>
void dequantize(const WeightView& weight, int64_t first, int64_t count, Out* out) {
  std::array<int8_t, kQuantGroup> bytes;
  const int64_t columns = weight.columns(), row = first / columns;
  for (int64_t column = first % columns, last = column + count; column < last;) {
    const int64_t group = column / kQuantGroup;
    const int64_t end = std::min(last, (group + 1) * kQuantGroup);
    float scale = 0;
    neuronmm::to_floats(weight.scales, row * weight.scales.columns() + group, 1, &scale);
    to_bytes(weight, row * columns + column, end - column, bytes.data());
    for (size_t i = 0; column < end; ++column, ++i) {
      *out++ = static_cast<Out>(scale) * static_cast<Out>(bytes[i]);
    }
  }
}

}  // namespace

int64_t WeightView::stored_bytes() const {
  if (!quantized()) return size_bytes();
  return rows() * stored_row_bytes(format, columns()) + scales.size_bytes() +
         (groups.empty() ? 0 : groups.size_bytes());
}

void to_bytes(const WeightView& weight, int64_t first, int64_t count, int8_t* out) {
  const int64_t columns = weight.columns(), row = first / columns, column = first % columns;
  NMM_CHECK(weight.quantized() && column + count <= columns);
  const auto* const stored = reinterpret_cast<const uint8_t*>(weight.data) +
                             row * stored_row_bytes(weight.format, columns);
  if (weight.format.bits == 8) {
    std::memcpy(out, stored + column, static_cast<size_t>(count));
    return;
  }
  auto* const q = reinterpret_cast<uint8_t*>(out);  // codes are turned into bytes in place
  read_codes(weight.format.bits, stored, columns, column, count, q);
  if (weight.format.bits == 6) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int8_t>(q[i] - 32);
    return;
  }
  const auto* const groups =
      reinterpret_cast<const uint8_t*>(weight.groups.data) + row * weight.groups.columns();
  for (int64_t i = 0; i < count; ++i) {
    const GroupOf4Bits group = GroupOf4Bits::of(groups[(column + i) / weight.format.group]);
    out[i] = static_cast<int8_t>(group.byte(q[i]));
  }
}

void to_floats(const WeightView& weight, int64_t first, int64_t count, float* out) {
  if (weight.quantized()) return dequantize(weight, first, count, out);
  neuronmm::to_floats(weight, first, count, out);
}

void to_doubles(const WeightView& weight, int64_t first, int64_t count, double* out) {
  if (weight.quantized()) return dequantize(weight, first, count, out);
  neuronmm::to_doubles(weight, first, count, out);
}

std::vector<int32_t> non_pivots(const Pivots& pivots) {
  std::vector<int32_t> rest;
  auto pivot = pivots.index.begin();
  for (int32_t i = 0; i < pivots.features(); ++i) {
    if (pivot != pivots.index.end() && *pivot == i) {
      ++pivot;
    } else {
      rest.push_back(i);
    }
  }
  return rest;
}

int64_t LinearWeight::parameters() const {
  int64_t total = bias.empty() ? 0 : bias.size();
  for (const WeightView* weight : {&w_t, &u_t, &v_t, &in.map_t, &out.map_t}) {
    if (!weight->empty()) total += weight->size();
  }
  return total;
}

int64_t LinearWeight::stored_bytes() const {
  int64_t total = bias.empty() ? 0 : bias.size_bytes();
  for (const WeightView* weight : {&w_t, &u_t, &v_t, &in.map_t, &out.map_t}) {
    if (!weight->empty()) total += weight->stored_bytes();
  }
  return total;
}

}  // namespace neuronmm::ops
