#pragma once
// The merges of a BPE model by their pair: a hash table with open addressing, since most of the
// time of encoding a word goes into these look-ups and most of them find nothing.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/token_id.h"

namespace neuronmm::text {

class MergeTable {
 public:
  struct Merge {
    int32_t rank;
    TokenId merged;
  };

  MergeTable() : MergeTable(0) {}
  explicit MergeTable(int64_t count);

  // At most `count` pairs; a pair that comes again replaces its merge, as in the tokenizers
  // library.
  void insert(TokenId left, TokenId right, Merge merge);
  // nullptr: the pair has no merge.
  const Merge* find(TokenId left, TokenId right) const {
    const Slot& slot = slots_[slot_of(key_of(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // ids are not negative: no pair has this key
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge{};
  };

  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Where the key is or would be. The multiplier is 2^64 / golden ratio (Knuth's multiplicative
  // hashing); the high bits of the product are the good ones.
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
