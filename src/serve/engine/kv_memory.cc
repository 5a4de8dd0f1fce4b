#include "serve/engine/kv_memory.h"

#include <algorithm>
#include <new>
#include <utility>

namespace neuronmm::serve {
namespace {

using ops::kKvBlock;

std::span<const TokenId> block_tokens(std::span<const TokenId> tokens, size_t block) {
  return tokens.subspan(block * kKvBlock, kKvBlock);
}

}  // namespace

KvMemory::KvMemory(const model::Transformer& transformer, int64_t blocks, int64_t capacity_tokens)
    : transformer_(transformer),
      blocks_(blocks),
      capacity_tokens_(capacity_tokens),
      allocator_(make_cache()) {
  NMM_CHECK(capacity_tokens <= blocks * kKvBlock);
  free_.reserve(
      static_cast<size_t>(blocks));  // so that give_back() never allocates and never throws
}

std::unique_ptr<ops::KvCache> KvMemory::make_cache() const {
  return transformer_.make_cache(capacity_tokens_);
}

void KvMemory::allocate_all() {
  while (allocated_ < blocks_) {
    free_.push_back(allocator_->make_block());
    ++allocated_;
  }
}

int64_t KvMemory::release_unused() {
  int64_t released = std::ssize(free_);
  free_.clear();
  for (; cached() > 0; ++released) prefixes_.evict();
  allocated_ -= released;
  return released;
}

// Cached blocks are evicted only if there is no other memory.
ops::KvBlock KvMemory::take_block() {
  if (!free_.empty()) {
    ops::KvBlock block = std::move(free_.back());
    free_.pop_back();
    return block;
  }
  if (allocated_ == blocks_) return prefixes_.evict();
  try {
    ops::KvBlock block = allocator_->make_block();
    ++allocated_;
    return block;
  } catch (const std::bad_alloc&) {  // the system has less memory than this pool may use
    if (cached() == 0) throw;
    return prefixes_.evict();
  }
}

SequenceMemory::SequenceMemory(KvMemory& memory, std::string salt)
    : memory_(memory), salt_(std::move(salt)), cache_(memory.make_cache()) {}

// Releases the last block first. Fewer sequences can use it than the blocks before it, so it should
// be evicted before them.
SequenceMemory::~SequenceMemory() {
  for (int64_t i = std::ssize(cache_->blocks()) - 1; i >= 0; --i) {
    const auto index = static_cast<size_t>(i);
    if (index < shared_.size()) {
      memory_.prefixes_.remove_user(*shared_[index]);
    } else {
      memory_.give_back(cache_->blocks()[index]);
    }
  }
}

void SequenceMemory::use_shared_block(PrefixCache::Entry& entry) {
  const size_t index = shared_.size();
  const auto& blocks = cache_->blocks();
  ops::KvBlock own = index < blocks.size() ? blocks[index] : nullptr;
  // The steps that may throw come first, so that each counted user has its block in shared_.
  shared_.push_back(&entry);
  try {
    if (own != entry.block) cache_->set_block(static_cast<int64_t>(index), entry.block);
  } catch (...) {
    shared_.pop_back();
    throw;
  }
  memory_.prefixes_.add_user(entry);
  if (own && own != entry.block) memory_.give_back(std::move(own));
}

void SequenceMemory::take_cached_blocks(std::span<const TokenId> tokens) {
  while (length() % kKvBlock == 0 && length() + kKvBlock < std::ssize(tokens)) {
    PrefixCache::Entry* const entry =
        memory_.prefixes_.find(last(), salt_, block_tokens(tokens, shared_.size()));
    if (entry == nullptr) return;
    use_shared_block(*entry);
    cache_->set_length(length() + kKvBlock);
  }
}

bool SequenceMemory::reserve(int64_t positions) {
  const int64_t held = std::ssize(cache_->blocks());
  const int64_t wanted = (positions + kKvBlock - 1) / kKvBlock;
  if (wanted - held > memory_.available()) return false;
  for (int64_t i = held; i < wanted; ++i) {
    ops::KvBlock block = memory_.take_block();
    try {
      cache_->set_block(i, block);
    } catch (...) {
      memory_.give_back(std::move(block));
      throw;
    }
  }
  return true;
}

void SequenceMemory::share_blocks(std::span<const TokenId> tokens) {
  while ((std::ssize(shared_) + 1) * kKvBlock <= length()) {
    const size_t index = shared_.size();
    use_shared_block(memory_.prefixes_.insert(last(), salt_, block_tokens(tokens, index),
                                              cache_->blocks()[index]));
  }
}

std::unique_ptr<SequenceMemory> SequenceMemory::fork() const {
  auto copy = std::make_unique<SequenceMemory>(memory_, salt_);
  for (PrefixCache::Entry* const entry : shared_) copy->use_shared_block(*entry);
  if (!copy->reserve(length())) return nullptr;
  if (length() % kKvBlock != 0) {
    memory_.transformer_.copy_block(*cache_, *copy->cache_, static_cast<int64_t>(shared_.size()));
  }
  copy->cache_->set_length(length());
  return copy;
}

}  // namespace neuronmm::serve
