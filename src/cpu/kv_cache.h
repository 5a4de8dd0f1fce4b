#pragma once
// Keys and values in the panels that the attention kernels read, so that they multiply like weights
// (see packed_matrix.h). A block of positions holds, for every layer and head:
//
//   keys    [kKeyBlock / 32][head_dim][32]   panels of 32 positions
//   values  [padded head_dim / 32][kKeyBlock][32]   panels of 32 features
//
// as fp32, or as bf16 (rounded to nearest even) if the cache's dtype is that.

#include "cpu/packed_matrix.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

// Positions of a block; also those between two corrections of the softmax's maximum. 12 rows of
// scores are 6 KiB; 128 keys and values of 64 features are 32 KiB (bf16) or 64 KiB, which stay in
// the second-level cache for all tiles of rows.
inline constexpr int64_t kKeyBlock = ops::kKvBlock;
static_assert(kKeyBlock % kPanel == 0);

class CpuKvCache : public ops::KvCache {
 public:
  explicit CpuKvCache(const ops::KvCacheShape& shape);

  bool is_bf16() const { return is_bf16_; }
  const uint32_t* const* block_data() const { return words(); }
  // Where in a block the keys and then the values of a head begin, in words.
  int64_t keys_offset(int64_t layer, int64_t head) const {
    return (layer * shape().num_key_value_heads + head) * head_.total;
  }
  int64_t values_offset(int64_t layer, int64_t head) const {
    return keys_offset(layer, head) + kKeyBlock / kPanel * head_.key_panel;
  }
  ops::KvBlock make_block() const override;

  // Stores the rows k, v [M, kv_heads·head_dim] of one head at positions length() ... length()+M-1,
  // for which there is room.
  void store(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v);

 private:
  template <typename Element>
  void store_as(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v);

  // Words of one layer and head in a block.
  struct Head {
    explicit Head(const ops::KvCacheShape& shape);
    int64_t padded_dim, key_panel, value_panel, total;
  };

  const bool is_bf16_;
  const Head head_;
};

}  // namespace neuronmm::cpu
