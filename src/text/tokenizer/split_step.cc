#include "text/tokenizer/split_step.h"

#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

// Receives matches and gaps from left to right, without holes, and hands on the pieces.
class Pieces {
 public:
  Pieces(const Piece& whole, SplitBehavior behavior, bool invert, const PreTokenizer::Next& next)
      : whole_(whole), behavior_(behavior), invert_(invert), next_(next) {}

  void add(size_t end, bool matched) {
    const bool is_match = matched != invert_;
    if (!joins(is_match)) emit();
    end_ = end;
    is_match_ = is_match;
    is_open_ = true;
  }
  void emit() {
    if (is_open_ && !(behavior_ == SplitBehavior::kRemoved && is_match_))
      next_(whole_.part(begin_, end_));
    begin_ = end_;
    is_open_ = false;
  }

 private:
  bool joins(bool is_match) const {
    if (!is_open_) return true;
    switch (behavior_) {
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !is_match_;
      case SplitBehavior::kMergedWithNext:
        return is_match_ && !is_match;
      case SplitBehavior::kContiguous:
        return is_match == is_match_;
      default:
        return false;
    }
  }

  const Piece& whole_;
  const SplitBehavior behavior_;
  const bool invert_;
  const PreTokenizer::Next& next_;
  // The bytes of the piece that may still grow.
  size_t begin_ = 0, end_ = 0;
  bool is_match_ = false;  // Whether its last part is a match.
  bool is_open_ = false;
};

}  // namespace

void SplitStep::apply(const Piece& piece, MatchBudget& budget,
                      const PreTokenizer::Next& next) const {
  Pieces pieces(piece, behavior_, invert_, next);
  size_t done = 0;
  const auto match = [&](size_t begin, size_t end) {
    if (begin != done) pieces.add(begin, false);
    pieces.add(end, true);
    done = end;
  };
  if (const auto* regex = std::get_if<SplitRegex>(&pattern_)) {
    SplitRegex::Matches matches(*regex, piece.text, budget);
    while (matches.next()) match(matches.begin(), matches.end());
  } else {
    CharacterClass* const is_in_class = std::get<CharacterClass*>(pattern_);
    for (size_t i = 0; i < piece.text.size();) {
      const Utf8Step step = next_utf8(piece.text.substr(i));
      const size_t end = i + static_cast<size_t>(step.length);
      if (is_in_class(step.code_point)) match(i, end);
      i = end;
    }
  }
  if (done != piece.text.size()) pieces.add(piece.text.size(), false);
  pieces.emit();
}

}  // namespace neuronmm::text
