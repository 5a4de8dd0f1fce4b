#pragma once
// The regular expression of a pre-tokenizer or a Replace step, run by PCRE2. The tokenizers library
// runs Oniguruma (Ruby's syntax). Patterns that the two libraries read differently are rewritten or
// refused.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/unicode/match_budget.h"

namespace neuronmm::text {

// A compiled pattern. Copies share it, and all threads may use it.
class SplitRegex {
 public:
  enum class Kind { kRegex, kLiteral };
  // Fails if the pattern is empty, too long, malformed or not supported.
  static Result<SplitRegex> compile(std::string_view pattern, Kind kind = Kind::kRegex);

  // Finds the matches in a text (valid UTF-8) from left to right. The matches end early if the
  // budget is spent, which the owner of the budget has to check.
  class Matches {
   public:
    Matches(const SplitRegex& regex, std::string_view text, MatchBudget& budget);
    // Returns false if there are no more matches.
    bool next();
    size_t begin() const { return begin_; }
    size_t end() const { return end_; }

   private:
    struct Free {
      void operator()(void* match_data) const;
    };
    int match_within_budget();

    const SplitRegex& regex_;
    std::string_view text_;
    MatchBudget& budget_;
    std::unique_ptr<void, Free> match_data_;
    size_t from_ = 0, begin_ = 0, end_ = 0;
    bool has_matched_ = false;
  };

 private:
  struct Compiled;
  explicit SplitRegex(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace neuronmm::text
