#include "serve/engine/kv_memory.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

namespace neuronmm::serve {
namespace {

using ops::kKvBlock;

// No request may give a salt with this end, because JSON texts hold no such bytes.
constexpr std::string_view kLongSalt = "\xFF long";

std::span<const TokenId> block_tokens(std::span<const TokenId> tokens, size_t block) {
  return tokens.subspan(block * kKvBlock, kKvBlock);
}

// Keeps an entry from being evicted.
class EntryInUse {
 public:
  EntryInUse(PrefixCache& prefixes, PrefixCache::Entry& entry)
      : prefixes_(prefixes), entry_(entry) {
    prefixes_.add_user(entry_);
  }
  ~EntryInUse() { prefixes_.remove_user(entry_); }
  EntryInUse(const EntryInUse&) = delete;
  EntryInUse& operator=(const EntryInUse&) = delete;

 private:
  PrefixCache& prefixes_;
  PrefixCache::Entry& entry_;
};

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
    } else if (index > shared_.size() || !last_block_kept_) {
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

PrefixCache::Match SequenceMemory::find_next(std::span<const TokenId> tokens) const {
  const int64_t count = std::min(kKvBlock, std::ssize(tokens) - 1 - length());
  if (length() % kKvBlock != 0 || count <= 0) return {};
  return memory_.prefixes_.find(
      last(), salt_, tokens.subspan(static_cast<size_t>(length()), static_cast<size_t>(count)));
}

void SequenceMemory::take_cached_blocks(std::span<const TokenId> tokens) {
  for (PrefixCache::Match next = find_next(tokens); next.whole_block(); next = find_next(tokens)) {
    use_shared_block(*next.entry);
    cache_->set_length(length() + kKvBlock);
  }
}

void SequenceMemory::expect(std::span<const TokenId> tokens) {
  cache_->set_expected_tokens(std::ssize(tokens));
  const bool is_long = std::ssize(tokens) > memory_.transformer_.config().long_rope_from();
  if (is_long) salt_ += kLongSalt;
  cache_->set_long_rope(is_long);
}

bool SequenceMemory::outgrows_rope() const {
  return !cache_->long_rope() && length() + 1 > memory_.transformer_.config().long_rope_from();
}

bool SequenceMemory::reserve_with_prefix(std::span<const TokenId> tokens) {
  NMM_CHECK(cache_->blocks().empty());
  expect(tokens);
  take_cached_blocks(tokens);
  const PrefixCache::Match next = find_next(tokens);
  const int64_t positions = std::ssize(tokens);
  const bool taken = next.common > 0 && (reserve_and_copy(*next.entry, positions) ||
                                         adopt_and_reserve(*next.entry, positions));
  if (taken) cache_->set_length(length() + next.common);
  return taken || reserve(positions);
}

bool SequenceMemory::reserve_whole(std::span<const TokenId> tokens) {
  NMM_CHECK(cache_->blocks().empty());
  expect(tokens);
  return reserve(std::ssize(tokens));
}

bool SequenceMemory::reserve_and_copy(PrefixCache::Entry& entry, int64_t positions) {
  const EntryInUse in_use(memory_.prefixes_, entry);
  if (!reserve(positions)) return false;
  const std::unique_ptr<ops::KvCache> source = memory_.make_cache();
  const auto index = std::ssize(shared_);
  for (int64_t i = 0; i < index; ++i)
    source->set_block(i, cache_->blocks()[static_cast<size_t>(i)]);
  source->set_block(index, entry.block);
  memory_.transformer_.copy_block(*source, *cache_, index);
  return true;
}

// Takes the entry's block itself. This is for sequences for which the memory suffices, but not for
// the copy of a block.
bool SequenceMemory::adopt_and_reserve(PrefixCache::Entry& entry, int64_t positions) {
  const bool fits = missing_blocks(positions) <= memory_.available();
  if (!fits || entry.complete() || entry.users > 0) return false;
  ops::KvBlock block = memory_.prefixes_.remove(entry);
  try {
    cache_->set_block(std::ssize(shared_), block);
  } catch (...) {
    memory_.give_back(std::move(block));
    throw;
  }
  return reserve(positions);
}

int64_t SequenceMemory::missing_blocks(int64_t positions) const {
  const int64_t wanted = (positions + kKvBlock - 1) / kKvBlock;
  return std::max<int64_t>(0, wanted - std::ssize(cache_->blocks()));
}

bool SequenceMemory::reserve(int64_t positions) {
  const int64_t missing = missing_blocks(positions);
  if (missing > memory_.available()) return false;
  for (int64_t i = 0; i < missing; ++i) {
    ops::KvBlock block = memory_.take_block();
    try {
      cache_->set_block(std::ssize(cache_->blocks()), block);
    } catch (...) {
      memory_.give_back(std::move(block));
      throw;
    }
  }
  return true;
}

void SequenceMemory::share_blocks(std::span<const TokenId> tokens) {
  // use_shared_block() must not throw after an insertion. Otherwise the block would belong to the
  // cache, and the destructor would give it back, too.
  shared_.reserve(cache_->blocks().size());
  while ((std::ssize(shared_) + 1) * kKvBlock <= length()) {
    const size_t index = shared_.size();
    PrefixCache::Inserted inserted = memory_.prefixes_.insert(
        last(), salt_, block_tokens(tokens, index), cache_->blocks()[index]);
    if (inserted.replaced) memory_.give_back(std::move(inserted.replaced));
    use_shared_block(*inserted.entry);
  }
}

void SequenceMemory::keep_last_block(std::span<const TokenId> tokens) {
  const size_t first = shared_.size() * kKvBlock, count = static_cast<size_t>(length()) - first;
  if (count == 0 || count >= kKvBlock) return;
  const ops::KvBlock& block = cache_->blocks()[shared_.size()];
  try {
    PrefixCache::Inserted inserted =
        memory_.prefixes_.insert(last(), salt_, tokens.subspan(first, count), block);
    if (inserted.replaced) memory_.give_back(std::move(inserted.replaced));
    last_block_kept_ = inserted.entry->block == block;
  } catch (const std::bad_alloc&) {
  }
}

std::unique_ptr<SequenceMemory> SequenceMemory::fork() const {
  auto copy = std::make_unique<SequenceMemory>(memory_, salt_);
  copy->cache_->set_expected_tokens(cache_->expected_tokens());
  copy->cache_->set_long_rope(cache_->long_rope());
  for (PrefixCache::Entry* const entry : shared_) copy->use_shared_block(*entry);
  if (!copy->reserve(length())) return nullptr;
  if (length() % kKvBlock != 0) {
    memory_.transformer_.copy_block(*cache_, *copy->cache_, static_cast<int64_t>(shared_.size()));
  }
  copy->cache_->set_length(length());
  return copy;
}

}  // namespace neuronmm::serve
