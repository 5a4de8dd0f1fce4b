#pragma once
// The CPU backend's key-value cache. Keys and values lie in the panels that the attention kernels
// read, so that they are multiplied like weights (see packed_matrix.h). A block of positions holds,
// for every layer and head:
//
//    keys    [kKeyBlock / kPanel][head_dim][kPanel]           Each panel has kPanel positions.
//    values  [padded head_dim / kPanel][kKeyBlock][kPanel]    Each panel has kPanel features.
//
// The elements are fp32, bf16 (rounded to nearest even) or int8, as the cache's dtype says. With
// bf16 and int8, products take steps of 32 k. The features of keys are therefore padded with zeros
// to a multiple of 32, and zeros follow the values of the last position up to such a multiple.
//
// bf16 and int8 have pairs of neighbouring rows of a panel side by side (see packed_matrix.h). With
// int8, a key or a value is scale · byte, where the largest magnitude of a position and head
// becomes 127. The scales (fp32) follow the values: kKeyBlock of the keys and kKeyBlock of the
// values. Products apply the scales to scores and probabilities, so bytes are multiplied as they
// are.

#include "cpu/packed_matrix.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

// The number of positions in a block. Attention corrects the softmax's maximum once per block. The
// keys and values of a block (64 KiB in fp32 with 64 features) stay in the second-level cache for
// all tiles of rows.
inline constexpr int64_t kKeyBlock = ops::kKvBlock;
static_assert(kKeyBlock % kPanel == 0);

// The keys and values of one sequence.
class CpuKvCache : public ops::KvCache {
 public:
  explicit CpuKvCache(const ops::KvCacheShape& shape);

  bool is_fp32() const { return shape().dtype == DType::kF32; }
  bool is_int8() const { return shape().dtype == DType::kI8; }
  const uint32_t* const* block_data() const { return block_memory(); }
  // Return where the keys and the values of a head begin in a block, in words.
  int64_t keys_offset(int64_t layer, int64_t head) const {
    return (layer * shape().num_key_value_heads + head) * head_.total;
  }
  int64_t values_offset(int64_t layer, int64_t head) const {
    return keys_offset(layer, head) + kKeyBlock / kPanel * head_.key_panel;
  }
  // Return where the scales of a head begin in a block of int8, in words.
  int64_t key_scales_offset(int64_t layer, int64_t head) const {
    return values_offset(layer, head) + head_.padded_dim / kPanel * head_.value_panel;
  }
  int64_t value_scales_offset(int64_t layer, int64_t head) const {
    return key_scales_offset(layer, head) + kKeyBlock;
  }
  // Return the words of one panel.
  int64_t key_panel() const { return head_.key_panel; }
  int64_t value_panel() const { return head_.value_panel; }
  ops::KvBlock make_block() const override;

  // Stores one head of the rows k, v [M, kv_heads·head_dim] at positions first ... first + M - 1,
  // which are in one panel of kPanel positions. The cache must have grown to hold them. With bf16
  // and int8, the values of later positions of that panel become zeros.
  void store(int64_t layer, int64_t head, int64_t first, ConstMatrixView k, ConstMatrixView v);

 private:
  template <typename Element>
  void store_as(int64_t layer, int64_t head, int64_t first, ConstMatrixView k, ConstMatrixView v);
  // Sets values to zeros from this position on, up to a multiple of 32.
  template <typename Element>
  void clear_values(int64_t layer, int64_t head, int64_t position);

  // The sizes of one layer and head in a block, in words (key_rows and padded_dim in
  // features).
  struct Head {
    explicit Head(const ops::KvCacheShape& shape);
    int64_t key_rows, padded_dim, key_panel, value_panel, total;
  };

  const Head head_;
};

}  // namespace neuronmm::cpu
