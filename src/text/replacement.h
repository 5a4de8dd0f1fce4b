#pragma once
// "Replace" of tokenizer.json, a step of normalizers and of decoders: what matches a pattern
// becomes a fixed text.

#include <string>
#include <string_view>

#include "text/split_regex.h"

namespace neuronmm::text {

class Replacement {
 public:
  static Result<Replacement> compile(std::string_view pattern, SplitRegex::Kind kind,
                                     std::string content);

  // `text` (valid UTF-8) itself where nothing matches, or `storage`.
  std::string_view apply(std::string_view text, std::string& storage, MatchBudget& budget) const;
  // Whether the parts of a text may be replaced one by one wherever it is cut between characters.
  bool is_of_single_characters() const { return single_character_; }

 private:
  Replacement(SplitRegex regex, std::string literal, std::string content, bool single_character)
      : regex_(std::move(regex)),
        literal_(std::move(literal)),
        content_(std::move(content)),
        single_character_(single_character) {}

  SplitRegex regex_;
  std::string literal_;  // what a literal pattern is; empty: a regular expression
  std::string content_;
  bool single_character_;
};

}  // namespace neuronmm::text
