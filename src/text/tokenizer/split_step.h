#pragma once
// The pre-tokenizer steps that cut a text where a pattern matches: Split, Digits, Punctuation,
// WhitespaceSplit, CharDelimiterSplit and ByteLevel's regular expression.

#include <variant>

#include "text/tokenizer/pre_tokenizer.h"
#include "text/unicode/character_class.h"
#include "text/unicode/split_regex.h"

namespace neuronmm::text {

// Says what a step does with the matches and with the gaps between them.
enum class SplitBehavior {
  kRemoved,             // Only the gaps are pieces.
  kIsolated,            // Matches and gaps are pieces.
  kMergedWithPrevious,  // A match joins the end of the gap before it.
  kMergedWithNext,      // A match joins the start of the gap after it.
  kContiguous           // Adjacent matches are one piece.
};

// Cuts pieces at the matches of a pattern.
class SplitStep : public PreTokenizer::Step {
 public:
  // A regular expression or a literal, or a class whose characters are matches one by one. With
  // `invert`, the gaps count as the matches.
  using Pattern = std::variant<SplitRegex, CharacterClass*>;
  SplitStep(Pattern pattern, SplitBehavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace neuronmm::text
