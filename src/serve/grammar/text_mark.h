#pragma once
// A text such as "</think>" whose end divides an answer: other rules apply to the tokens after it.
// A tokenizer may have one token of this text or spell it with several, and a token may go on
// beyond its end. The constraints of serve/http use this file.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/grammar/token_vocabulary.h"

namespace neuronmm::grammar {

class TextMark {
 public:
  // `text` must not be empty. `vocabulary` must outlive this object. Reads all tokens once for each
  // byte of the text.
  TextMark(std::string text, const TokenVocabulary& vocabulary);

  const std::string& text() const { return text_; }
  // How far an answer has come.
  struct Place {
    // The bytes of the mark that the answer ends with: text().size() if the mark is complete.
    size_t matched = 0;
    size_t rest = 0;  // bytes after the mark, if it is complete
  };
  // Returns the place after `more`, where `matched` bytes were matched before it.
  Place advance(size_t matched, std::string_view more) const;
  // Returns the tokens that would complete the mark at this place and go on after it.
  std::span<const text::TokenId> overrunning(size_t matched) const { return overrunning_[matched]; }

 private:
  std::string text_;
  std::vector<size_t> fallback_;  // the longest proper prefix that each prefix ends with
  std::vector<std::vector<text::TokenId>> overrunning_;  // by matched bytes
};

}  // namespace neuronmm::grammar
