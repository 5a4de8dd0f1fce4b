#pragma once
// Memory for many short texts that never move. Vocabularies keep hundreds of thousands of token
// texts in it without an allocation for each.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace neuronmm::text {

// Owns the texts; the views that store() returns are valid as long as the arena.
class TextArena {
 public:
  // Copies the text and returns a view of the copy.
  std::string_view store(std::string_view text) {
    if (text.size() > free_ || next_ == nullptr) grow(text.size());
    char* const copy = next_;
    if (!text.empty()) std::memcpy(copy, text.data(), text.size());
    next_ += text.size();
    free_ -= text.size();
    return {copy, text.size()};
  }

 private:
  void grow(size_t bytes) {
    constexpr size_t kBlock = 1 << 18;
    free_ = std::max(kBlock, bytes);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(free_));
    next_ = blocks_.back().get();
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  size_t free_ = 0;
};

}  // namespace neuronmm::text
