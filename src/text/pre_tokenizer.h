#pragma once
// Cuts text into the words that BPE encodes one by one: the splits of the tokenizer.json in their
// order, each inside the words of the one before.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "text/split_regex.h"

namespace neuronmm::text {

class PreTokenizer {
 public:
  // What becomes of the parts that match and of those between them.
  struct Split {
    SplitRegex regex;
    bool keep_matches = true;
    bool keep_gaps = true;
  };

  void add_split(Split split) { splits_.push_back(std::move(split)); }
  // Words that reach this point get a space in front, unless they begin with one.
  void add_prefix_space() { prefix_space_at_ = std::ssize(splits_); }

  using OnWord = std::function<void(std::string_view)>;
  // `text` is valid UTF-8. No word is empty. Once the budget is spent the words are wrong.
  void split(std::string_view text, MatchBudget& budget, const OnWord& on_word) const {
    split_from(0, text, budget, on_word);
  }

 private:
  void split_from(int64_t step, std::string_view text, MatchBudget& budget,
                  const OnWord& on_word) const;

  std::vector<Split> splits_;
  int64_t prefix_space_at_ = -1;  // before this split; -1: nowhere
};

}  // namespace neuronmm::text
