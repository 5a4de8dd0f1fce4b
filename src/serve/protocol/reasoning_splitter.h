#pragma once
// Thoughts and content of an answer: what stands between <think> and </think> at its beginning.

#include <string>
#include <string_view>

#include "serve/protocol/prompt.h"

namespace neuronmm::serve {

// Line ends around the thoughts, and before the content behind them, belong to neither. What is
// told does not depend on how the text is cut into pieces.
class ReasoningSplitter {
 public:
  explicit ReasoningSplitter(Thinking thinking);
  // Appends to the two what is certain.
  void push(std::string_view text, std::string& reasoning, std::string& content);
  void finish(std::string& reasoning, std::string& content);

 private:
  enum class State {
    kBegin,   // <think> may come
    kOpened,  // line ends before the thoughts
    kInside,  // thoughts
    kClosed,  // line ends before the content
    kContent,
  };
  void push_byte(char c, std::string& reasoning, std::string& content);
  void inside(char c, std::string& reasoning);

  State state_;
  std::string held_;
};

}  // namespace neuronmm::serve
