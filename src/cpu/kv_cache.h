#pragma once
// Keys and values in the panels that the attention kernels read, so that they multiply like weights
// (see packed_matrix.h). The positions are cut into blocks, which are allocated as the sequence
// grows. A block holds, for every layer and head:
//
//   keys    [kKeyBlock / 32][head_dim][32]   panels of 32 positions
//   values  [padded head_dim / 32][kKeyBlock][32]   panels of 32 features
//
// as fp32, or as bf16 (rounded to nearest even) if the cache's dtype is that.

#include <vector>

#include "cpu/buffer.h"
#include "cpu/packed_matrix.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

// Positions of a block; also those between two corrections of the softmax's maximum. 12 rows of
// scores are 6 KiB; 128 keys and values of 64 features are 32 KiB (bf16) or 64 KiB, which stay in
// the second-level cache for all tiles of rows.
inline constexpr int64_t kKeyBlock = 4 * kPanel;

class CpuKvCache : public ops::KvCache {
 public:
  explicit CpuKvCache(const ops::KvCacheShape& shape);

  bool is_bf16() const { return is_bf16_; }
  // The blocks so far, and where in them the keys and then the values of a head begin, in words.
  const uint32_t* const* blocks() const { return block_words_.data(); }
  int64_t keys_offset(int64_t layer, int64_t head) const {
    return (layer * shape().num_key_value_heads + head) * head_words_;
  }
  int64_t values_offset(int64_t layer, int64_t head) const {
    return keys_offset(layer, head) + kKeyBlock / kPanel * key_panel_words_;
  }
  int64_t size_bytes() const;  // of the blocks

  // Makes room for `positions`. Not while another thread uses the cache.
  void grow(int64_t positions);
  // Stores the rows k, v [M, kv_heads·head_dim] of one head at positions length() ... length()+M-1,
  // for which there is room.
  void store(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v);

 private:
  int64_t panel_words(int64_t rows) const {  // of 32 elements
    return (is_bf16_ ? (rows + 1) / 2 : rows) * kPanel;
  }
  template <typename Element>
  void store_as(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v);

  const bool is_bf16_;
  const int64_t padded_head_dim_, key_panel_words_, value_panel_words_, head_words_;
  const int64_t words_per_block_;
  std::vector<Buffer<uint32_t>> blocks_;
  std::vector<const uint32_t*> block_words_;
};

}  // namespace neuronmm::cpu
