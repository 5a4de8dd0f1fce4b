#pragma once
// Keys and values of a sequence, in blocks of memory that sequences with the same beginning may
// share.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/tensor.h"

namespace neuronmm::ops {

// Positions of a block.
inline constexpr int64_t kKvBlock = 128;

// The keys and values of kKvBlock positions, in every layer. What the words mean is the backend's
// affair: blocks go from one cache to another of the same shape and backend, and nowhere else.
using KvBlock = std::shared_ptr<uint32_t[]>;

struct KvCacheShape {
  int64_t num_layers = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t capacity_tokens = 0;  // a limit: memory is taken as the sequence grows
  // What keys and values may be rounded to: kBF16, or kF32 for not at all. The model's own dtype.
  DType dtype = DType::kF32;
};

// Keys (after RoPE) and values of the tokens seen so far, in whatever layout and dtype its backend
// likes. One that holds no values has blocks of no words.
class KvCache {
 public:
  explicit KvCache(const KvCacheShape& shape, int64_t block_words = 0)
      : shape_(shape), block_words_(block_words) {}
  virtual ~KvCache() = default;
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const KvCacheShape& shape() const { return shape_; }
  int64_t length() const { return length_; }  // tokens that are complete in every layer
  // Advanced by the model after the last layer; set lower to forget the newest tokens.
  void set_length(int64_t tokens) { length_ = tokens; }

  int64_t block_words() const { return block_words_; }
  int64_t block_bytes() const { return block_words_ * 4; }
  int64_t size_bytes() const { return std::ssize(blocks_) * block_bytes(); }

  // Those of the first positions first. A block that others hold too is read and never written: the
  // sequence goes on behind it.
  const std::vector<KvBlock>& blocks() const { return blocks_; }
  // Memory for one, of no cache yet.
  virtual KvBlock make_block() const;
  // Puts a block in the place of another, or behind the last.
  void set_block(int64_t index, KvBlock block);
  // Makes room for `positions`. Not while another thread uses the cache. What lies from length() on
  // will be written, so that nobody else may hold it.
  void grow(int64_t positions);

 protected:
  uint32_t* const* words() const { return words_.data(); }  // of the blocks

 private:
  const KvCacheShape shape_;
  const int64_t block_words_;
  int64_t length_ = 0;
  std::vector<KvBlock> blocks_;
  std::vector<uint32_t*> words_;
};

}  // namespace neuronmm::ops
