#include "ops/kv_cache.h"

#include <utility>

#include "base/result.h"

namespace neuronmm::ops {

KvBlock KvCache::make_block() const { return KvBlock(new uint32_t[block_words_]); }

void KvCache::set_block(int64_t index, KvBlock block) {
  NMM_CHECK(index >= 0 && index <= std::ssize(blocks_));
  if (index == std::ssize(blocks_)) {
    block_memory_.emplace_back();
    try {
      blocks_.emplace_back();
    } catch (...) {
      block_memory_.pop_back();
      throw;
    }
  }
  block_memory_[static_cast<size_t>(index)] = block.get();
  blocks_[static_cast<size_t>(index)] = std::move(block);
}

// Blocks are neither moved nor freed while a sequence grows, so that pointers to them stay valid.
void KvCache::grow(int64_t positions) {
  for (int64_t i = length_ / kKvBlock; i < std::ssize(blocks_) && i * kKvBlock < positions; ++i) {
    NMM_CHECK(blocks_[static_cast<size_t>(i)].use_count() == 1);
  }
  while (std::ssize(blocks_) * kKvBlock < positions) set_block(std::ssize(blocks_), make_block());
}

}  // namespace neuronmm::ops
