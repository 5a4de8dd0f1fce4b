#pragma once
// Limits the work and the memory that a tokenizer may spend on one text. A tokenizer.json is
// outside input. A pattern that backtracks can take exponential time, and steps that each double a
// text can take exponential memory.

#include <cstddef>
#include <cstdint>

namespace neuronmm::text {

// Counts steps of PCRE2, the unit of its match limit. PCRE2 does not tell how many steps a match
// took. A match may therefore take kUncountedSteps without being counted, and a match that
// needs more is charged with the limit that it was given.
class MatchBudget {
 public:
  // The steps that a match may take without being counted. Published patterns need fewer for any
  // word, so they are never charged. The uncounted work is at most proportional to the number of
  // words.
  static constexpr uint32_t kUncountedSteps = 1000;

  // The steps that take about a tenth of a second. Every text may use that many, and 50 more for
  // each of its bytes. A harmless pattern needs work that is linear in the text: a run of a million
  // spaces costs the usual patterns a few million steps.
  static constexpr uint64_t kTenthOfASecond = 20'000'000;
  explicit MatchBudget(size_t text_bytes, uint64_t least_steps = kTenthOfASecond)
      : limit_(least_steps + 50 * uint64_t{text_bytes}), max_bytes_(65'536 + 64 * text_bytes) {}

  uint64_t limit() const { return limit_; }
  bool spent() const { return used_ > limit_; }
  // Charges `steps`. Returns false if less is left; the budget is then spent.
  bool take(uint64_t steps) {
    used_ += steps;
    return !spent();
  }
  void exhaust() { used_ = limit_ + 1; }

  // The size in bytes that the steps may give the text. Published tokenizers at most triple a text.
  size_t max_bytes() const { return max_bytes_; }
  bool exceeds_max_bytes() const { return exceeds_max_bytes_; }
  // Returns false if `bytes` exceeds max_bytes(); the budget is then spent.
  bool fits(size_t bytes) {
    if (bytes <= max_bytes_) return true;
    exceeds_max_bytes_ = true;
    exhaust();
    return false;
  }

 private:
  uint64_t limit_;
  uint64_t used_ = 0;
  size_t max_bytes_;
  bool exceeds_max_bytes_ = false;
};

}  // namespace neuronmm::text
