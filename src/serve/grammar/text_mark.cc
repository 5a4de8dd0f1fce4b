#include "serve/grammar/text_mark.h"

#include <utility>

namespace neuronmm::grammar {

TextMark::TextMark(std::string text, const TokenVocabulary& vocabulary)
    : text_(std::move(text)), fallback_(text_.size() + 1, 0), overrunning_(text_.size() + 1) {
  for (size_t i = 1; i < text_.size(); ++i) {
    size_t matched = fallback_[i];
    while (matched > 0 && text_[i] != text_[matched]) matched = fallback_[matched];
    fallback_[i + 1] = matched + (text_[i] == text_[matched] ? 1 : 0);
  }
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    const auto token = static_cast<text::TokenId>(id);
    const std::string_view bytes = vocabulary.text(token);
    for (size_t matched = 0; matched < text_.size(); ++matched) {
      if (bytes.size() > text_.size() - matched && advance(matched, bytes).rest > 0)
        overrunning_[matched].push_back(token);
    }
  }
}

TextMark::Place TextMark::advance(size_t matched, std::string_view more) const {
  for (size_t i = 0; i < more.size(); ++i) {
    while (matched > 0 && text_[matched] != more[i]) matched = fallback_[matched];
    if (text_[matched] == more[i]) ++matched;
    if (matched == text_.size()) return {matched, more.size() - i - 1};
  }
  return {matched, 0};
}

}  // namespace neuronmm::grammar
