#pragma once
// Ids by text: a hash table with open addressing, since every word of a text is looked up here.

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "text/token_id.h"

namespace neuronmm::text {

class TokenTable {
 public:
  // `text` is not empty, not in the table yet, and must outlive it.
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
    std::string_view text;  // empty: free
    TokenId id = 0;
  };

  // Where the text is or would be.
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

  std::vector<Slot> slots_ = std::vector<Slot>(16);  // a power of two, at most half of it used
  size_t count_ = 0;
};

}  // namespace neuronmm::text
