#include "serve/output/reasoning_splitter.h"

#include <algorithm>
#include <utility>

namespace neuronmm::serve {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";

}  // namespace

ReasoningSplitter::ReasoningSplitter(Thinking thinking)
    : state_(thinking == Thinking::kNone     ? State::kContent
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
      if (!kOpen.starts_with(mark)) {
        state_ = State::kContent;
        content += std::exchange(held_, {});
      } else if (mark == kOpen) {
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

// Adds a byte of the thoughts. Line feeds, and bytes that may be the beginning of </think>, are
// held back.
void ReasoningSplitter::inside(char c, std::string& reasoning) {
  held_ += c;
  for (;;) {
    const size_t begin = std::min(held_.find_first_not_of('\n'), held_.size());
    const std::string_view rest = std::string_view(held_).substr(begin);
    if (rest == kClose) {
      held_.clear();
      state_ = State::kClosed;
      return;
    }
    if (kClose.starts_with(rest)) return;
    reasoning += held_.substr(0, begin + 1);
    held_.erase(0, begin + 1);
  }
}

void ReasoningSplitter::finish(std::string& reasoning, std::string& content) {
  (state_ == State::kInside ? reasoning : content) += std::exchange(held_, {});
}

}  // namespace neuronmm::serve
