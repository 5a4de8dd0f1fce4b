#include "cpu/kv_cache.h"

#include <algorithm>

#include "base/float16.h"

namespace neuronmm::cpu {
namespace {

int64_t pad_to_panel(int64_t count) { return (count + kPanel - 1) / kPanel * kPanel; }

// How a panel's row of 32 elements lies in memory: its order and its dtype (see packed_matrix.h).
struct Fp32Element {
  using Type = float;
  static int64_t slot(int64_t column) { return column; }
  static float from_float(float value) { return value; }
};
struct Bf16Element {
  using Type = uint16_t;
  static int64_t slot(int64_t column) {
    return column < kHalfPanel ? 2 * column : 2 * (column - kHalfPanel) + 1;
  }
  static uint16_t from_float(float value) { return bf16::from_float(value).bits; }
};

}  // namespace

CpuKvCache::CpuKvCache(const ops::KvCacheShape& shape)
    : ops::KvCache(shape),
      is_bf16_(shape.dtype == DType::kBF16),
      row_words_(is_bf16_ ? kHalfPanel : kPanel),
      padded_head_dim_(pad_to_panel(shape.head_dim)),
      head_words_((shape.head_dim + padded_head_dim_) * kKeyBlock / kPanel * row_words_),
      words_per_block_(shape.num_layers * shape.num_key_value_heads * head_words_) {}

int64_t CpuKvCache::size_bytes() const { return std::ssize(blocks_) * words_per_block_ * 4; }

void CpuKvCache::grow(int64_t positions) {
  while (std::ssize(blocks_) * kKeyBlock < positions) {
    blocks_.emplace_back(words_per_block_, Pages::kHuge);
    block_words_.push_back(blocks_.back().data());
  }
}

void CpuKvCache::store(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v) {
  if (is_bf16_) {
    store_as<Bf16Element>(layer, head, k, v);
  } else {
    store_as<Fp32Element>(layer, head, k, v);
  }
}

template <typename Element>
void CpuKvCache::store_as(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v) {
  using Type = typename Element::Type;
  const int64_t head_dim = shape().head_dim;
  for (int64_t i = 0; i < k.rows; ++i) {
    const int64_t block = (length() + i) / kKeyBlock, position = (length() + i) % kKeyBlock;
    uint32_t* const words = blocks_[static_cast<size_t>(block)].data();
    auto* const keys = reinterpret_cast<Type*>(words + keys_offset(layer, head)) +
                       position / kPanel * head_dim * kPanel + Element::slot(position % kPanel);
    const float* const key = k.row(i) + head * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) keys[d * kPanel] = Element::from_float(key[d]);

    auto* const values =
        reinterpret_cast<Type*>(words + values_offset(layer, head)) + position * kPanel;
    const float* const value = v.row(i) + head * head_dim;
    for (int64_t d = 0; d < padded_head_dim_; ++d) {
      values[d / kPanel * kKeyBlock * kPanel + Element::slot(d % kPanel)] =
          Element::from_float(d < head_dim ? value[d] : 0.0f);
    }
  }
}

}  // namespace neuronmm::cpu
