#pragma once
// Separates the thoughts of an answer, the text between two marks (reasoning_tags.h) at its
// beginning, from its content. OutputParser uses it.

#include <string>
#include <string_view>

#include "serve/output/reasoning_tags.h"

namespace neuronmm::serve {

// The state of the model's thoughts (such as <think>...</think>) where the answer begins.
enum class Thinking {
  kNone,      // the model has none, or the prompt has closed them
  kOptional,  // the answer may begin with the mark before thoughts
  kOpened,    // the prompt has opened them
};

// The state of one answer. Line feeds around the thoughts, and between them and the content, are
// dropped. The result does not depend on how the text is cut into pieces.
class ReasoningSplitter {
 public:
  explicit ReasoningSplitter(Thinking thinking, ReasoningTags tags = {});
  // Adds text. Appends the parts whose meaning is certain to `reasoning` and `content`.
  void push(std::string_view text, std::string& reasoning, std::string& content);
  // Appends the rest, after the last text.
  void finish(std::string& reasoning, std::string& content);

 private:
  enum class State {
    kBegin,   // the mark before thoughts may follow
    kOpened,  // skips line feeds before the thoughts
    kInside,  // in the thoughts
    kClosed,  // skips line feeds before the content
    kContent,
  };
  void push_byte(char c, std::string& reasoning, std::string& content);
  void inside(char c, std::string& reasoning);
  // Returns held_ after the bytes at its beginning that are in `skipped`. Bytes that were skipped
  // before are not read again, since a model may write line feeds without end.
  std::string_view held_after(const char* skipped);
  void drop_held();

  const ReasoningTags tags_;
  State state_;
  std::string held_;
  size_t skipped_ = 0;  // bytes at the beginning of held_
};

}  // namespace neuronmm::serve
