#include "text/unicode/replacement.h"

#include "text/unicode/utf8.h"

namespace neuronmm::text {

Result<Replacement> Replacement::compile(std::string_view pattern, SplitRegex::Kind kind,
                                         std::string content) {
  NMM_ASSIGN(SplitRegex regex, SplitRegex::compile(pattern, kind));
  const bool literal = kind == SplitRegex::Kind::kLiteral;
  const bool single_character =
      literal && static_cast<size_t>(next_utf8(pattern).length) == pattern.size();
  return Replacement(std::move(regex), literal ? std::string(pattern) : "", std::move(content),
                     single_character);
}

std::string_view Replacement::apply(std::string_view text, std::string& storage,
                                    MatchBudget& budget) const {
  storage.clear();
  size_t done = 0;
  const auto replace = [&](size_t begin, size_t end) {
    storage.append(text, done, begin - done).append(content_);
    done = end;
  };
  bool found = false;
  if (!literal_.empty()) {
    // A literal is searched without PCRE2, because SentencePiece tokenizers replace the spaces of
    // every text this way.
    for (size_t at; (at = text.find(literal_, done)) != std::string_view::npos; found = true) {
      if (!budget.fits(storage.size())) break;
      replace(at, at + literal_.size());
    }
  } else if (!text.empty()) {
    SplitRegex::Matches matches(regex_, text, budget);
    for (; budget.fits(storage.size()) && matches.next(); found = true)
      replace(matches.begin(), matches.end());
  }
  if (!found) return text;
  return storage.append(text, done);
}

}  // namespace neuronmm::text
