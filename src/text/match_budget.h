#pragma once
// How much work the regular expressions of a tokenizer may be for one text. A pattern that
// backtracks can take exponential time, and a tokenizer.json is outside input.

#include <cstddef>
#include <cstdint>

namespace neuronmm::text {

// Counts steps of PCRE2, the unit of its match limit. It does not tell how many a match took, so a
// match may take kFree without being counted, and one that needs more is charged what it asked for.
class MatchBudget {
 public:
  // Published patterns need fewer for any word, so that they are never charged; the uncounted work
  // stays proportional to the number of words.
  static constexpr uint32_t kFree = 1000;

  // Linear in the text, as the work of every harmless pattern is (a run of a million spaces costs
  // the usual ones a few million steps), and at least a tenth of a second.
  explicit MatchBudget(size_t text_bytes) : limit_(20'000'000 + 50 * uint64_t{text_bytes}) {}

  uint64_t limit() const { return limit_; }
  bool spent() const { return used_ > limit_; }
  // False if that is more than what is left; the budget is spent then.
  bool take(uint64_t steps) {
    used_ += steps;
    return !spent();
  }
  void exhaust() { used_ = limit_ + 1; }

 private:
  uint64_t limit_;
  uint64_t used_ = 0;
};

}  // namespace neuronmm::text
