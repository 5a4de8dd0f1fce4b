#pragma once
// The memory of all sequences' keys and values: a fixed number of blocks. What sequences leave
// behind stays for those that begin alike, until somebody needs the room.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "serve/engine/prefix_cache.h"

namespace neuronmm::serve {

class KvMemory {
 public:
  // At most `blocks`, which are allocated when they are needed first and then kept. A sequence has
  // room for `capacity_tokens`, which fit into them.
  KvMemory(const model::Transformer& transformer, int64_t blocks, int64_t capacity_tokens);

  int64_t blocks() const { return blocks_; }
  int64_t cached() const { return prefixes_.unused(); }  // that no sequence uses
  int64_t in_use() const { return made_ - std::ssize(free_) - cached(); }

 private:
  friend class SequenceMemory;

  int64_t available() const { return blocks_ - in_use(); }
  ops::KvBlock take();
  void give_back(ops::KvBlock block) { free_.push_back(std::move(block)); }
  std::unique_ptr<ops::KvCache> make_cache() const;

  const model::Transformer& transformer_;
  const int64_t blocks_, capacity_tokens_;
  const std::unique_ptr<ops::KvCache> maker_;  // of blocks
  int64_t made_ = 0;
  std::vector<ops::KvBlock> free_;
  PrefixCache prefixes_;
};

// The keys and values of one sequence, of which others may hold the complete blocks too. Gives
// everything back when it goes.
class SequenceMemory {
 public:
  SequenceMemory(KvMemory& memory, std::string salt);
  ~SequenceMemory();
  SequenceMemory(const SequenceMemory&) = delete;
  SequenceMemory& operator=(const SequenceMemory&) = delete;

  ops::KvCache& cache() { return *cache_; }
  int64_t length() const { return cache_->length(); }

  // Where the sequence stands at a border of blocks: goes on with what is there of `tokens`, which
  // are all of the sequence's. The last token is left to be computed: its logits are wanted.
  void reuse(std::span<const TokenId> tokens);
  // Makes room for so many positions in all; false, and nothing changes, where memory is short.
  [[nodiscard]] bool reserve(int64_t positions);
  // Offers the blocks that are complete to others. `tokens` are those of the sequence.
  void publish(std::span<const TokenId> tokens);
  // A second sequence of the same tokens; null where memory is short. Call publish before.
  std::unique_ptr<SequenceMemory> fork() const;

 private:
  PrefixCache::Entry* last() const { return shared_.empty() ? nullptr : shared_.back(); }
  void share(PrefixCache::Entry& entry);

  KvMemory& memory_;
  const std::string salt_;
  std::unique_ptr<ops::KvCache> cache_;
  std::vector<PrefixCache::Entry*> shared_;  // of the first blocks; the others are its own
};

}  // namespace neuronmm::serve
