#pragma once
// The pre-tokenizer steps that cut a text at what matches a pattern: Split, Digits, Punctuation,
// WhitespaceSplit, CharDelimiterSplit, ByteLevel's regular expression.

#include <variant>

#include "text/character_class.h"
#include "text/pre_tokenizer.h"
#include "text/split_regex.h"

namespace neuronmm::text {

// What becomes of the parts that match and of the gaps between them.
enum class SplitBehavior {
  kRemoved,             // only the gaps are pieces
  kIsolated,            // matches and gaps are pieces
  kMergedWithPrevious,  // a match ends the gap before it
  kMergedWithNext,      // a match begins the gap after it
  kContiguous           // matches side by side are one piece
};

class SplitStep : public PreTokenizer::Step {
 public:
  // A regular expression or literal, or every character of a class by itself. Inverted: the gaps
  // count as the matches.
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
