#pragma once
// Ends an answer at a line that is indented less than the client wants (llama.cpp's n_indent).
// Editors use it to stop where a block of code ends. LlamaCppWriter is the user.

#include <cstdint>
#include <string>
#include <string_view>

namespace neuronmm::serve {

class LineLimit {
 public:
  // All lines but the first must begin with at least `fewest_blanks` spaces or tabs. 0 allows any.
  explicit LineLimit(int64_t fewest_blanks) : fewest_blanks_(fewest_blanks) {}

  // Returns as much of the next text as belongs to the answer.
  std::string take(std::string_view text) {
    for (size_t i = 0; i < text.size() && fewest_blanks_ > 0; ++i) {
      const char c = text[i];
      const bool in_indentation = blanks_ >= 0 && (c == ' ' || c == '\t');
      ended_ = ended_ || (blanks_ >= 0 && !in_indentation && blanks_ < fewest_blanks_);
      if (ended_) return std::string(text.substr(0, i));
      if (in_indentation) ++blanks_;
      if (!in_indentation) blanks_ = c == '\n' ? 0 : kBehindIndentation;
    }
    return std::string(text);
  }
  // Returns whether a line broke the rule. The answer ends before that line's first character that
  // is no blank.
  bool ended() const { return ended_; }

 private:
  static constexpr int64_t kBehindIndentation = -1;

  const int64_t fewest_blanks_;
  int64_t blanks_ = kBehindIndentation;  // at the begin of this line
  bool ended_ = false;
};

}  // namespace neuronmm::serve
