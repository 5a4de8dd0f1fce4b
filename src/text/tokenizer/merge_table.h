#pragma once
// A hash table of the merges of a BPE model, by pair of tokens. The table uses open addressing,
// because encoding a word spends most of its time on look-ups and most of them find nothing.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/tokenizer/token_id.h"

namespace neuronmm::text {

// The table. Its size is fixed when it is made.
class MergeTable {
 public:
  // The result of merging a pair. A lower rank is merged first.
  struct Merge {
    int32_t rank;
    TokenId merged;
  };

  MergeTable() : MergeTable(0) {}
  explicit MergeTable(int64_t count);

  // Adds a pair; the table may hold `count` pairs. A pair that comes again replaces its merge, as
  // in the tokenizers library.
  void insert(TokenId left, TokenId right, Merge merge);
  // Returns null if the pair has no merge.
  const Merge* find(TokenId left, TokenId right) const {
    const Slot& slot = slots_[slot_of(key_of(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }

 private:
  // The key of a free slot. Ids are not negative, so no pair has it.
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge{};
  };

  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Returns the slot that holds the key, or else the free slot where it belongs. The multiplier is
  // 2^64 / golden ratio (Knuth's multiplicative hashing). The high bits of the product are used
  // because they are mixed best.
  size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t i = (key * 0x9E3779B97F4A7C15u) >> shift_;
    while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask;
    return i;
  }

  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace neuronmm::text
