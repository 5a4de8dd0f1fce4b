#include "text/pre_tokenizer.h"

#include <string>

namespace neuronmm::text {

void PreTokenizer::split_from(int64_t step, std::string_view text, MatchBudget& budget,
                              const OnWord& on_word) const {
  if (text.empty()) return;
  std::string with_space;
  if (step == prefix_space_at_ && text.front() != ' ') {
    with_space.append(" ").append(text);
    text = with_space;
  }
  if (step == std::ssize(splits_)) return on_word(text);

  const Split& split = splits_[static_cast<size_t>(step)];
  SplitRegex::Matches matches(split.regex, text, budget);
  size_t done = 0;
  while (matches.next()) {
    if (split.keep_gaps)
      split_from(step + 1, text.substr(done, matches.begin() - done), budget, on_word);
    done = matches.end();
    if (split.keep_matches)
      split_from(step + 1, text.substr(matches.begin(), done - matches.begin()), budget, on_word);
  }
  if (split.keep_gaps) split_from(step + 1, text.substr(done), budget, on_word);
}

}  // namespace neuronmm::text
