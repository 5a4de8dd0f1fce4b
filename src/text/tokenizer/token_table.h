#pragma once
// A hash table from texts to token ids. The table uses open addressing, because every word of a
// text is looked up in it.

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/token_id.h"

namespace neuronmm::text {

// Refers to the texts without owning them.
class TokenTable {
 public:
  // Adds a text, which must not be empty or in the table already. The text must outlive the table.
  void insert(std::string_view text, TokenId id) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    slots_[slot_of(text)] = {text, id};
    ++count_;
  }
  std::optional<TokenId> find(std::string_view text) const {
    if (count_ == 0) return {};
    const Slot& slot = slots_[slot_of(text)];
    if (slot.text.empty()) return {};
    return slot.id;
  }

 private:
  struct Slot {
    std::string_view text;  // Empty in a free slot.
    TokenId id = 0;
  };

  // Returns the slot that holds the text, or else the free slot where it belongs.
  size_t slot_of(std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t i = std::hash<std::string_view>()(text) & mask;
    while (!slots_[i].text.empty() && slots_[i].text != text) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (!slot.text.empty()) slots_[slot_of(slot.text)] = slot;
    }
  }

  // The size is a power of two, and at most half of the slots are used.
  std::vector<Slot> slots_ = std::vector<Slot>(16);
  size_t count_ = 0;
};

}  // namespace neuronmm::text
