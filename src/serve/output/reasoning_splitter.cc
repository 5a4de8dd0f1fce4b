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
      const size_t begin = std::min(held_.find_first_not_of(" \n\t\r"), held_.size());
      const std::string_view mark = std::string_view(held_).substr(begin);
      if (!tags_.begin.starts_with(mark)) {
        state_ = State::kContent;
        content += std::exchange(held_, {});
      } else if (mark == tags_.begin) {
        state_ = State::kOpened;
        held_.clear();
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

// Adds a byte of the thoughts. Line feeds, and bytes that may begin the mark after them, are
// held back.
void ReasoningSplitter::inside(char c, std::string& reasoning) {
  held_ += c;
  for (;;) {
    const size_t begin = std::min(held_.find_first_not_of('\n'), held_.size());
    const std::string_view rest = std::string_view(held_).substr(begin);
    if (rest == tags_.end) {
      held_.clear();
      state_ = State::kClosed;
      return;
    }
    if (tags_.end.starts_with(rest)) return;
    reasoning += held_.substr(0, begin + 1);
    held_.erase(0, begin + 1);
  }
}

void ReasoningSplitter::finish(std::string& reasoning, std::string& content) {
  (state_ == State::kInside ? reasoning : content) += std::exchange(held_, {});
}

}  // namespace neuronmm::serve
