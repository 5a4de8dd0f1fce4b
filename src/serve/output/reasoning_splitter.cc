#include "serve/output/reasoning_splitter.h"

#include <algorithm>
#include <utility>

namespace neuronmm::serve {

ReasoningSplitter::ReasoningSplitter(Thinking thinking, ReasoningTags tags)
    : tags_(std::move(tags)),
      state_(thinking == Thinking::kNone     ? State::kContent
             : thinking == Thinking::kOpened ? State::kOpened
                                             : State::kBegin) {}

void ReasoningSplitter::push(std::string_view text, std::string& reasoning, std::string& content) {
  if (state_ == State::kContent) {
    content += text;
    return;
  }
  for (const char c : text) push_byte(c, reasoning, content);
}

void ReasoningSplitter::push_byte(char c, std::string& reasoning, std::string& content) {
  switch (state_) {
    case State::kBegin: {
      held_ += c;
      const std::string_view mark = held_after(" \n\t\r");
      if (!tags_.begin.starts_with(mark)) {
        state_ = State::kContent;
        content += held_;
        drop_held();
      } else if (mark == tags_.begin) {
        state_ = State::kOpened;
        drop_held();
      }
      return;
    }
    case State::kOpened:
      if (c == '\n') return;
      state_ = State::kInside;
      return inside(c, reasoning);
    case State::kInside:
      return inside(c, reasoning);
    case State::kClosed:
      if (c == '\n') return;
      state_ = State::kContent;
      content += c;
      return;
    case State::kContent:
      content += c;
      return;
  }
}

std::string_view ReasoningSplitter::held_after(const char* skipped) {
  skipped_ = std::min(held_.find_first_not_of(skipped, skipped_), held_.size());
  return std::string_view(held_).substr(skipped_);
}

void ReasoningSplitter::drop_held() {
  held_.clear();
  skipped_ = 0;
}

// Adds a byte of the thoughts. Line feeds, and bytes that may begin the mark after them, are
// held back.
void ReasoningSplitter::inside(char c, std::string& reasoning) {
  held_ += c;
  for (;;) {
    const std::string_view rest = held_after("\n");
    if (rest == tags_.end) {
      drop_held();
      state_ = State::kClosed;
      return;
    }
    if (tags_.end.starts_with(rest)) return;
    reasoning.append(held_, 0, skipped_ + 1);
    held_.erase(0, skipped_ + 1);
    skipped_ = 0;
  }
}

void ReasoningSplitter::finish(std::string& reasoning, std::string& content) {
  (state_ == State::kInside ? reasoning : content) += held_;
  drop_held();
}

}  // namespace neuronmm::serve
