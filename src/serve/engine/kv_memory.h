#pragma once
// The memory for the keys and values of all sequences, which has a fixed number of blocks. Blocks
// that a finished sequence leaves stay cached for later sequences that begin with the same tokens.
// They are evicted when another sequence needs the memory. Only the scheduler uses these classes,
// on its one thread.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "serve/engine/prefix_cache.h"

namespace neuronmm::serve {

// The pool of blocks, with the cache of prefixes.
class KvMemory {
 public:
  // Allocates at most `blocks` blocks, each when it is first needed, and keeps them. A sequence may
  // have `capacity_tokens` tokens, which must fit into the blocks.
  KvMemory(const model::Transformer& transformer, int64_t blocks, int64_t capacity_tokens);

  // Allocates all blocks now. Their memory is reserved but takes no space until it is written to.
  void allocate_all();
  // Gives the memory of all blocks that no sequence holds back to the system, cached prefixes
  // included. Returns their number. They may be allocated again later.
  int64_t release_unused();

  int64_t blocks() const { return blocks_; }
  // Returns the number of blocks that only the prefix cache holds.
  int64_t cached() const { return prefixes_.unused(); }
  int64_t in_use() const { return allocated_ - std::ssize(free_) - cached(); }
  // Returns the number of blocks that a sequence can still get: the free ones, those not allocated
  // yet, and the cached ones.
  int64_t available() const { return blocks_ - in_use(); }

 private:
  friend class SequenceMemory;

  // Returns a block for a sequence to write. At least one must be available. Throws std::bad_alloc
  // if the system has no memory and no cached block can be evicted.
  ops::KvBlock take_block();
  void give_back(ops::KvBlock block) { free_.push_back(std::move(block)); }
  std::unique_ptr<ops::KvCache> make_cache() const;

  const model::Transformer& transformer_;
  const int64_t blocks_, capacity_tokens_;
  const std::unique_ptr<ops::KvCache>
      allocator_;          // holds no block and is only used to allocate them
  int64_t allocated_ = 0;  // the number of blocks allocated
  std::vector<ops::KvBlock> free_;
  PrefixCache prefixes_;
};

// The keys and values of one sequence. Other sequences may use its complete blocks, too, and copy
// its last one when it has left. The destructor returns the blocks to the KvMemory.
class SequenceMemory {
 public:
  SequenceMemory(KvMemory& memory, std::string salt);
  ~SequenceMemory();
  SequenceMemory(const SequenceMemory&) = delete;
  SequenceMemory& operator=(const SequenceMemory&) = delete;

  ops::KvCache& cache() { return *cache_; }
  int64_t length() const { return cache_->length(); }

  // Takes memory for all tokens of a sequence that has no block yet. The keys and values of its
  // first tokens come from the prefix cache, as far as they are there: complete blocks are shared,
  // and the block in which the sequence and the cache part is copied. The last token is never taken
  // from the cache, because its logits have to be computed. Returns false if there are not enough
  // blocks.
  [[nodiscard]] bool reserve_with_prefix(std::span<const TokenId> tokens);
  // Reserves memory for the same tokens without the prefix cache.
  [[nodiscard]] bool reserve_whole(std::span<const TokenId> tokens);
  // Appends complete cached blocks that were computed from the sequence's next tokens, as far as
  // there are any. `tokens` are all tokens of the sequence. Nothing happens if the last block is
  // incomplete.
  void take_cached_blocks(std::span<const TokenId> tokens);
  // Takes blocks until the sequence has memory for `positions` tokens in all. Returns false and
  // changes nothing if there are not enough blocks.
  [[nodiscard]] bool reserve(int64_t positions);
  // Puts the complete blocks into the prefix cache, so that other sequences can use them. `tokens`
  // are all tokens of the sequence.
  void share_blocks(std::span<const TokenId> tokens);
  // Puts the last, incomplete block into the prefix cache. No function but the destructor may be
  // called afterwards. Call share_blocks() first. If the system has no memory, nothing happens.
  void keep_last_block(std::span<const TokenId> tokens);
  // Returns whether the next token makes the sequence longer than the model's table for short
  // sequences (model/transformer.h). Its keys and values are then useless to itself.
  bool outgrows_rope() const;
  // Returns a second sequence with the same tokens, or null if there are not enough blocks. Call
  // share_blocks() first: complete blocks are then shared, and only the last incomplete one is
  // copied.
  std::unique_ptr<SequenceMemory> fork() const;

 private:
  PrefixCache::Entry* last() const { return shared_.empty() ? nullptr : shared_.back(); }
  // Looks up the tokens of the next block, except for the last token of the sequence.
  PrefixCache::Match find_next(std::span<const TokenId> tokens) const;
  // Returns how many blocks the sequence lacks for so many tokens.
  int64_t missing_blocks(int64_t positions) const;
  bool reserve_and_copy(PrefixCache::Entry& entry, int64_t positions);
  bool adopt_and_reserve(PrefixCache::Entry& entry, int64_t positions);
  // Makes the entry's block the next shared block of this sequence. If the sequence has a block of
  // its own at that index, the block is given back.
  void use_shared_block(PrefixCache::Entry& entry);

  // Tells the cache how long the sequence is at least. Sequences that turn by different tables
  // share no blocks, so their salts differ.
  void expect(std::span<const TokenId> tokens);

  KvMemory& memory_;
  std::string salt_;
  std::unique_ptr<ops::KvCache> cache_;
  // The entries of the first blocks. Blocks after them belong to this sequence alone.
  std::vector<PrefixCache::Entry*> shared_;
  bool last_block_kept_ = false;  // whether the block after the shared ones belongs to the cache
};

}  // namespace neuronmm::serve
