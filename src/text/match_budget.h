#pragma once
// How much work a tokenizer may be for one text. A pattern that backtracks can take exponential
// time, steps that each double a text exponential memory, and a tokenizer.json is outside input.

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
  static constexpr uint64_t kTenthOfASecond = 20'000'000;
  explicit MatchBudget(size_t text_bytes, uint64_t least_steps = kTenthOfASecond)
      : limit_(least_steps + 50 * uint64_t{text_bytes}), max_bytes_(65'536 + 64 * text_bytes) {}

  uint64_t limit() const { return limit_; }
  bool spent() const { return used_ > limit_; }
  // False if that is more than what is left; the budget is spent then.
  bool take(uint64_t steps) {
    used_ += steps;
    return !spent();
  }
  void exhaust() { used_ = limit_ + 1; }

  // What steps may make of the text: published ones at most triple it.
  size_t max_bytes() const { return max_bytes_; }
  bool overgrown() const { return overgrown_; }
  // False if that is more; the budget is spent then.
  bool holds(size_t bytes) {
    if (bytes <= max_bytes_) return true;
    overgrown_ = true;
    exhaust();
    return false;
  }

 private:
  uint64_t limit_;
  uint64_t used_ = 0;
  size_t max_bytes_;
  bool overgrown_ = false;
};

}  // namespace neuronmm::text
