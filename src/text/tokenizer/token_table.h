#pragma once
// A hash table from texts to token ids. The table uses open addressing, because every word of a
// text is looked up in it.

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/token_id.h"

namespace neuronmm::text {

// Refers to the texts without owning them.
class TokenTable {
 public:
  // Makes room for `count` texts, so that adding them does not move those that are there.
  void reserve(size_t count) {
    const size_t size = std::bit_ceil(count + count / 2 + 1);
    if (size > slots_.size()) resize(size);
  }
  // Adds a text, which must not be empty and must outlive the table. If the table has the text
  // already, it stays as it is, and the result is the id that it has for the text.
  std::optional<TokenId> insert(std::string_view text, TokenId id) {
    if (3 * (count_ + 1) > 2 * slots_.size()) resize(2 * slots_.size());
    Slot& slot = slots_[slot_of(text)];
    if (slot.size != 0) return slot.id;
    slot = {text.data(), static_cast<uint32_t>(text.size()), id};
    ++count_;
    return {};
  }
  std::optional<TokenId> find(std::string_view text) const {
    if (count_ == 0) return {};
    const Slot& slot = slots_[slot_of(text)];
    if (slot.size == 0) return {};
    return slot.id;
  }

 private:
  // A slot has 16 bytes, so that four of them fill a cache line. Texts come from files of at most
  // io::kMaxTokenizerBytes, so 32 bits hold their sizes.
  struct Slot {
    const char* data = nullptr;
    uint32_t size = 0;  // 0 in a free slot.
    TokenId id = 0;

    std::string_view text() const { return {data, size}; }
  };

  // Returns the slot that holds the text, or else the free slot where it belongs.
  size_t slot_of(std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t i = std::hash<std::string_view>()(text) & mask;
    while (slots_[i].size != 0 && slots_[i].text() != text) i = (i + 1) & mask;
    return i;
  }
  void resize(size_t size) {
    std::vector<Slot> old(size);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.size != 0) slots_[slot_of(slot.text())] = slot;
    }
  }

  // The size is a power of two, and at most two thirds of the slots are used.
  std::vector<Slot> slots_ = std::vector<Slot>(16);
  size_t count_ = 0;
};

}  // namespace neuronmm::text
