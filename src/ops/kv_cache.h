#pragma once
// Declares the keys and values of one sequence (KV cache), in blocks of memory that sequences with
// the same beginning may share.
//
// Transformer::make_cache() makes a cache through the backend. The backend's attention grows the
// cache and fills it. The server's memory for prefixes (serve/engine/kv_memory.h) passes blocks
// from one cache to another. In tensor parallelism, every process rebuilds the caches of process 0
// (tensor_parallel/follow.h).
//
// Two mistakes are programming errors (NMM_CHECK): writing to a block that another cache holds, and
// storing more tokens than the capacity. Allocating blocks throws std::bad_alloc if memory is
// short.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/tensor.h"

namespace neuronmm::ops {

// The number of positions in a block.
inline constexpr int64_t kKvBlock = 128;

// The keys and values of kKvBlock positions, in every layer. The backend alone knows the layout of
// the words, so a block may only move between caches of the same shape and backend.
using KvBlock = std::shared_ptr<uint32_t[]>;

struct KvCacheShape {
  int64_t num_layers = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  // The largest number of tokens, which the model and attention check; grow() does not. Memory is
  // allocated as the sequence grows.
  int64_t capacity_tokens = 0;
  // The dtype to which the backend may round keys and values: kBF16, kI8 (with a scale for each
  // position and head), or kF32, which forbids rounding.
  DType dtype = DType::kF32;
};

// The keys (after RoPE) and values of the tokens seen so far. The backend chooses the layout and
// the dtype. A cache that stores no values has blocks of zero words.
class KvCache {
 public:
  explicit KvCache(const KvCacheShape& shape, int64_t block_words = 0)
      : shape_(shape), block_words_(block_words) {}
  virtual ~KvCache() = default;
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const KvCacheShape& shape() const { return shape_; }
  int64_t length() const { return length_; }  // the number of tokens that every layer has stored
  // Sets the length, without a check. The model advances it after the last layer. A lower length
  // forgets the newest tokens.
  void set_length(int64_t tokens) { length_ = tokens; }

  // Whether the keys are turned by the table for long sequences (RotaryEmbedding). The model
  // decides it (model::Transformer::predict), and changes it only when it computes all keys anew.
  bool long_rope() const { return long_rope_; }
  void set_long_rope(bool is_long) { long_rope_ = is_long; }
  // The number of tokens that the sequence is known to reach. A model with two tables takes the one
  // for that length from the first pass on.
  int64_t expected_tokens() const { return expected_tokens_; }
  void set_expected_tokens(int64_t tokens) { expected_tokens_ = tokens; }
  // The tokens of the first positions, which only models with two tables keep. The list may be
  // shorter than the cache, if blocks came from another one.
  std::vector<int32_t>& tokens() { return tokens_; }

  int64_t block_words() const { return block_words_; }
  int64_t block_bytes() const { return block_words_ * 4; }
  int64_t size_bytes() const { return std::ssize(blocks_) * block_bytes(); }

  // Returns the blocks in the order of their positions. A block that another cache also holds is
  // only read: new tokens are written to later blocks.
  const std::vector<KvBlock>& blocks() const { return blocks_; }
  // Allocates a block that does not belong to a cache yet.
  virtual KvBlock make_block() const;
  // Replaces the block at `index`, or appends the block if `index` is the number of blocks. Any
  // other index is a programming error (NMM_CHECK). Nothing changes if memory runs out.
  void set_block(int64_t index, KvBlock block);
  // Allocates blocks until the cache can hold `positions` tokens. No other thread may use the cache
  // meanwhile. No other cache may hold a block that has positions from length() on, because those
  // are about to be written (NMM_CHECK verifies this).
  void grow(int64_t positions);

 protected:
  // Returns the memory of each block.
  uint32_t* const* block_memory() const { return block_memory_.data(); }

 private:
  const KvCacheShape shape_;
  const int64_t block_words_;
  int64_t length_ = 0;
  bool long_rope_ = false;
  int64_t expected_tokens_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<KvBlock> blocks_;
  std::vector<uint32_t*> block_memory_;
};

}  // namespace neuronmm::ops
