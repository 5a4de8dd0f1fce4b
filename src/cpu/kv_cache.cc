#include "cpu/kv_cache.h"

#include <algorithm>

namespace neuronmm::cpu {
namespace {

int64_t pad_to_panel(int64_t count) { return (count + kPanel - 1) / kPanel * kPanel; }

}  // namespace

CpuKvCache::CpuKvCache(const ops::KvCacheShape& shape)
    : ops::KvCache(shape),
      padded_capacity_(pad_to_panel(shape.capacity_tokens)),
      padded_head_dim_(pad_to_panel(shape.head_dim)) {
  const int64_t positions = run(shape.num_layers, 0);
  keys_ = Buffer<float>(positions * shape.head_dim);
  values_ = Buffer<float>(positions * padded_head_dim_);
}

void CpuKvCache::store(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v) {
  const int64_t head_dim = shape().head_dim;
  float* const keys = keys_.data() + run(layer, head) * head_dim;
  float* const values = values_.data() + run(layer, head) * padded_head_dim_;
  for (int64_t i = 0; i < k.rows; ++i) {
    const int64_t position = length() + i;
    const float* const key = k.row(i) + head * head_dim;
    float* const to = keys + position / kPanel * kPanel * head_dim + position % kPanel;
    for (int64_t d = 0; d < head_dim; ++d) to[d * kPanel] = key[d];

    const float* const value = v.row(i) + head * head_dim;
    for (int64_t d = 0; d < padded_head_dim_; d += kPanel) {
      float* const row = values + d * padded_capacity_ + position * kPanel;
      const int64_t count = std::min(kPanel, head_dim - d);
      std::copy_n(value + d, count, row);
      std::fill(row + count, row + kPanel, 0.0f);
    }
  }
}

}  // namespace neuronmm::cpu
