#include "cpu/kv_cache.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/float16.h"
#include "cpu/buffer.h"
#include "cpu/hadamard.h"

namespace neuronmm::cpu {
namespace {

// Rounds up to whole panels. A head of 80 features takes three panels of 32.
int64_t pad_to_panel(int64_t count) { return (count + kPanel - 1) / kPanel * kPanel; }

// Returns the number of words in a panel of 32 columns and `rows` rows.
int64_t panel_words(const ops::KvCacheShape& shape, int64_t rows) {
  return rows * kPanel * dtype_size_bytes(shape.dtype) / kWordBytes;
}

// Returns where element (k, column) of a panel of bf16 or int8 lies.
int64_t offset_in_pairs(int64_t k, int64_t column) {
  return k / 2 * 2 * kPanel + column * 2 + k % 2;
}

// The dtype of an element, where it lies in a panel, and how a row of keys or values is rounded.
struct Fp32Element {
  using Type = float;
  static constexpr bool kScaled = false;
  static int64_t offset(int64_t k, int64_t column) { return k * kPanel + column; }
  static float from_float(float value, float /*inverse_scale*/) { return value; }
};
struct Bf16Element {
  using Type = uint16_t;
  static constexpr bool kScaled = false;
  static int64_t offset(int64_t k, int64_t column) { return offset_in_pairs(k, column); }
  static uint16_t from_float(float value, float /*inverse_scale*/) {
    return bf16::from_float(value).bits;
  }
};
struct Int8Element {
  using Type = int8_t;
  static constexpr bool kScaled = true;
  static int64_t offset(int64_t k, int64_t column) { return offset_in_pairs(k, column); }
  static int8_t from_float(float value, float inverse_scale) {
    return inverse_scale == 0.0f ? int8_t{0}
                                 : static_cast<int8_t>(std::lrint(value * inverse_scale));
  }
};

void store_float(float value, uint32_t* to) { *to = std::bit_cast<uint32_t>(value); }

// The scale of a row of keys or values, and its inverse. A row with NaN or infinity has the scale
// NaN, so that a broken model is noticed.
struct RowScale {
  RowScale(const float* row, int64_t count) {
    constexpr float kLargestByte = 127.0f;
    float largest = 0.0f, not_finite = 0.0f;
    for (int64_t d = 0; d < count; ++d) {
      largest = std::max(largest, std::abs(row[d]));
      not_finite += row[d] * 0.0f;
    }
    scale = largest / kLargestByte + not_finite;
    // The inverse of a scale that is too small would be infinite.
    inverse = scale >= std::numeric_limits<float>::min() ? 1.0f / scale : 0.0f;
  }
  float scale, inverse;
};

}  // namespace

CpuKvCache::Head::Head(const ops::KvCacheShape& shape)
    : key_rows(shape.dtype == DType::kF32 ? shape.head_dim : 2 * bf16_words(shape.head_dim)),
      padded_dim(pad_to_panel(shape.head_dim)),
      key_panel(panel_words(shape, key_rows)),
      value_panel(panel_words(shape, kKeyBlock)),
      total(kKeyBlock / kPanel * key_panel + padded_dim / kPanel * value_panel +
            (shape.dtype == DType::kI8 ? 2 * kKeyBlock : 0)) {}

CpuKvCache::CpuKvCache(const ops::KvCacheShape& shape)
    : ops::KvCache(shape, shape.num_layers * shape.num_key_value_heads * Head(shape).total),
      head_(shape) {}

ops::KvBlock CpuKvCache::make_block() const {
  const auto memory = std::make_shared<Buffer<uint32_t>>(block_words(), Pages::kHuge);
  return {memory, memory->data()};
}

void CpuKvCache::store(int64_t layer, int64_t head, int64_t first, ConstMatrixView k,
                       ConstMatrixView v) {
  if (is_fp32()) return store_as<Fp32Element>(layer, head, first, k, v);
  if (is_int8()) {
    store_as<Int8Element>(layer, head, first, k, v);
    clear_values<Int8Element>(layer, head, first + k.rows);
  } else {
    store_as<Bf16Element>(layer, head, first, k, v);
    clear_values<Bf16Element>(layer, head, first + k.rows);
  }
}

// Keys are panels of 32 positions (columns) by head_dim (k). Values are panels of 32 features
// (columns) by 128 positions (k). A position is therefore a column of the keys and a row of the
// values. What is beyond head_dim is zeros, because attention reads whole panels.
template <typename Element>
void CpuKvCache::store_as(int64_t layer, int64_t head, int64_t first, ConstMatrixView k,
                          ConstMatrixView v) {
  using Type = typename Element::Type;
  const int64_t head_dim = shape().head_dim;
  std::vector<float> rotated;
  for (int64_t i = 0; i < k.rows; ++i) {
    const int64_t block = (first + i) / kKeyBlock, position = (first + i) % kKeyBlock;
    uint32_t* const memory = block_memory()[block];
    auto* const keys = reinterpret_cast<Type*>(memory + keys_offset(layer, head) +
                                               position / kPanel * head_.key_panel);
    const float* key = k.row(i) + head * head_dim;
    const float* const value = v.row(i) + head * head_dim;
    float of_key = 1.0f, of_value = 1.0f;
    if constexpr (Element::kScaled) {
      rotated.assign(key, key + head_dim);
      rotate_by_hadamard(rotated.data(), head_dim);
      key = rotated.data();
      const RowScale key_scale(key, head_dim), value_scale(value, head_dim);
      store_float(key_scale.scale, memory + key_scales_offset(layer, head) + position);
      store_float(value_scale.scale, memory + value_scales_offset(layer, head) + position);
      of_key = key_scale.inverse;
      of_value = value_scale.inverse;
    }
    for (int64_t d = 0; d < head_.key_rows; ++d) {
      keys[Element::offset(d, position % kPanel)] =
          Element::from_float(d < head_dim ? key[d] : 0.0f, of_key);
    }
    uint32_t* const values = memory + values_offset(layer, head);
    for (int64_t d = 0; d < head_.padded_dim; ++d) {
      auto* const panel = reinterpret_cast<Type*>(values + d / kPanel * head_.value_panel);
      panel[Element::offset(position, d % kPanel)] =
          Element::from_float(d < head_dim ? value[d] : 0.0f, of_value);
    }
  }
}

template <typename Element>
void CpuKvCache::clear_values(int64_t layer, int64_t head, int64_t position) {
  using Type = typename Element::Type;
  const int64_t row = position % kKeyBlock, end = (row + kPanel - 1) / kPanel * kPanel;
  if (row == end) return;
  uint32_t* const memory = block_memory()[position / kKeyBlock];
  uint32_t* const values = memory + values_offset(layer, head);
  for (int64_t d = 0; d < head_.padded_dim; d += kPanel) {
    auto* const panel = reinterpret_cast<Type*>(values + d / kPanel * head_.value_panel);
    if (row % 2 != 0) {
      for (int64_t j = 0; j < kPanel; ++j) panel[Element::offset(row, j)] = Type{0};
    }
    const int64_t pair = (row + 1) / 2 * 2;
    std::fill(panel + pair * kPanel, panel + end * kPanel, Type{0});
  }
  if constexpr (Element::kScaled) {
    std::fill_n(memory + value_scales_offset(layer, head) + row, end - row, 0u);
  }
}

}  // namespace neuronmm::cpu
