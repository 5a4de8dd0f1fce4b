#pragma once
// The step "Replace" of tokenizer.json, which replaces the matches of a pattern by a fixed text.
// Normalizers and decoders use it.

#include <string>
#include <string_view>

#include "text/unicode/split_regex.h"

namespace neuronmm::text {

// A compiled pattern and the text that replaces its matches.
class Replacement {
 public:
  // Fails if the pattern does not compile (SplitRegex::compile).
  static Result<Replacement> compile(std::string_view pattern, SplitRegex::Kind kind,
                                     std::string content);

  // Returns `text` (valid UTF-8) if nothing matches, and `storage` otherwise.
  std::string_view apply(std::string_view text, std::string& storage, MatchBudget& budget) const;
  // Returns true if a text may be cut between any two characters and its parts replaced one by one.
  bool is_of_single_characters() const { return single_character_; }

 private:
  Replacement(SplitRegex regex, std::string literal, std::string content, bool single_character)
      : regex_(std::move(regex)),
        literal_(std::move(literal)),
        content_(std::move(content)),
        single_character_(single_character) {}

  SplitRegex regex_;
  // The pattern if it is literal; empty if it is a regular expression.
  std::string literal_;
  std::string content_;
  bool single_character_;
};

}  // namespace neuronmm::text
