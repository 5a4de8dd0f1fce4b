#include "cpu/kv_cache.h"

#include <algorithm>
#include <memory>

#include "base/float16.h"
#include "cpu/buffer.h"

namespace neuronmm::cpu {
namespace {

// Rounds up to whole panels. A head of 80 features takes three panels of 32.
int64_t pad_to_panel(int64_t count) { return (count + kPanel - 1) / kPanel * kPanel; }

// Returns the number of words in a panel of 32 columns and `rows` rows.
int64_t panel_words(const ops::KvCacheShape& shape, int64_t rows) {
  return (shape.dtype == DType::kBF16 ? (rows + 1) / 2 : rows) * kPanel;
}

// The dtype of an element, and where element (k, column) of a panel lies (see packed_matrix.h).
struct Fp32Element {
  using Type = float;
  static int64_t offset(int64_t k, int64_t column) { return k * kPanel + column; }
  static float from_float(float value) { return value; }
};
struct Bf16Element {
  using Type = uint16_t;
  static int64_t offset(int64_t k, int64_t column) {
    return k / 2 * 2 * kPanel + column * 2 + k % 2;
  }
  static uint16_t from_float(float value) { return bf16::from_float(value).bits; }
};

}  // namespace

CpuKvCache::Head::Head(const ops::KvCacheShape& shape)
    : key_rows(shape.dtype == DType::kBF16 ? 2 * bf16_words(shape.head_dim) : shape.head_dim),
      padded_dim(pad_to_panel(shape.head_dim)),
      key_panel(panel_words(shape, key_rows)),
      value_panel(panel_words(shape, kKeyBlock)),
      total(kKeyBlock / kPanel * key_panel + padded_dim / kPanel * value_panel) {}

CpuKvCache::CpuKvCache(const ops::KvCacheShape& shape)
    : ops::KvCache(shape, shape.num_layers * shape.num_key_value_heads * Head(shape).total),
      is_bf16_(shape.dtype == DType::kBF16),
      head_(shape) {}

ops::KvBlock CpuKvCache::make_block() const {
  const auto memory = std::make_shared<Buffer<uint32_t>>(block_words(), Pages::kHuge);
  return {memory, memory->data()};
}

void CpuKvCache::store(int64_t layer, int64_t head, int64_t first, ConstMatrixView k,
                       ConstMatrixView v) {
  if (is_bf16_) {
    store_as<Bf16Element>(layer, head, first, k, v);
    clear_values(layer, head, first + k.rows);
  } else {
    store_as<Fp32Element>(layer, head, first, k, v);
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
  for (int64_t i = 0; i < k.rows; ++i) {
    const int64_t block = (first + i) / kKeyBlock, position = (first + i) % kKeyBlock;
    uint32_t* const memory = block_memory()[block];
    auto* const keys = reinterpret_cast<Type*>(memory + keys_offset(layer, head) +
                                               position / kPanel * head_.key_panel);
    const float* const key = k.row(i) + head * head_dim;
    for (int64_t d = 0; d < head_.key_rows; ++d) {
      keys[Element::offset(d, position % kPanel)] =
          Element::from_float(d < head_dim ? key[d] : 0.0f);
    }
    uint32_t* const values = memory + values_offset(layer, head);
    const float* const value = v.row(i) + head * head_dim;
    for (int64_t d = 0; d < head_.padded_dim; ++d) {
      auto* const panel = reinterpret_cast<Type*>(values + d / kPanel * head_.value_panel);
      panel[Element::offset(position, d % kPanel)] =
          Element::from_float(d < head_dim ? value[d] : 0.0f);
    }
  }
}

void CpuKvCache::clear_values(int64_t layer, int64_t head, int64_t position) {
  const int64_t row = position % kKeyBlock, end = (row + kPanel - 1) / kPanel * kPanel;
  if (row == end) return;
  uint32_t* const values = block_memory()[position / kKeyBlock] + values_offset(layer, head);
  for (int64_t d = 0; d < head_.padded_dim; d += kPanel) {
    uint32_t* const panel = values + d / kPanel * head_.value_panel;
    if (row % 2 != 0) {
      for (int64_t j = 0; j < kPanel; ++j) panel[row / 2 * kPanel + j] &= 0xFFFF;
    }
    std::fill(panel + (row + 1) / 2 * kPanel, panel + end / 2 * kPanel, 0u);
  }
}

}  // namespace neuronmm::cpu
