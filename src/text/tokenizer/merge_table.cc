#include "text/tokenizer/merge_table.h"

#include <bit>

namespace neuronmm::text {

// At most half of the slots are used, so that a search ends after two or three slots.
MergeTable::MergeTable(int64_t count)
    : slots_(std::bit_ceil(static_cast<size_t>(2 * count + 2))),
      shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  const uint64_t key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

}  // namespace neuronmm::text
