#pragma once
// Cuts text into the words that BPE encodes one by one. The steps of the tokenizer.json run in
// their order, and each step cuts the pieces of the step before it. Encoding is the caller.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "text/unicode/match_budget.h"

namespace neuronmm::text {

// A part of a text that is being cut into words.
struct Piece {
  std::string_view text;  // Valid UTF-8, not empty.
  // The number of its bytes that come from the first character of the whole input. The number is 0
  // unless the piece begins the input. Metaspace's scheme "first" needs it.
  size_t first_character_bytes = 0;

  Piece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin),
            first_character_bytes > begin ? std::min(first_character_bytes, end) - begin : 0};
  }
};

// The list of steps.
class PreTokenizer {
 public:
  using OnWord = std::function<void(std::string_view)>;

  // Receives the pieces of a step and hands them to the next step, or as words to the caller of
  // split().
  class Next {
   public:
    // Empty pieces are dropped.
    void operator()(const Piece& piece) const {
      if (!piece.text.empty()) pre_tokenizer_.run_from(step_, piece, budget_, on_word_);
    }

   private:
    friend class PreTokenizer;
    Next(const PreTokenizer& pre_tokenizer, size_t step, MatchBudget& budget, const OnWord& on_word)
        : pre_tokenizer_(pre_tokenizer), step_(step), budget_(budget), on_word_(on_word) {}

    const PreTokenizer& pre_tokenizer_;
    size_t step_;
    MatchBudget& budget_;
    const OnWord& on_word_;
  };

  // A step. Its implementations are in split_step.h and rewrite_steps.h.
  class Step {
   public:
    virtual ~Step() = default;
    virtual void apply(const Piece& piece, MatchBudget& budget, const Next& next) const = 0;
  };

  void add(std::shared_ptr<const Step> step) { steps_.push_back(std::move(step)); }
  int64_t steps() const { return std::ssize(steps_); }
  // Calls on_word for every word. The words are wrong once the budget is spent.
  void split(const Piece& piece, MatchBudget& budget, const OnWord& on_word) const {
    if (!piece.text.empty()) run_from(0, piece, budget, on_word);
  }

 private:
  // Runs the steps from `step` on. Steps call each other: each piece of a step goes to the next
  // step at once, and a piece of the last step is a word.
  void run_from(size_t step, const Piece& piece, MatchBudget& budget, const OnWord& on_word) const {
    if (step == steps_.size()) return on_word(piece.text);
    steps_[step]->apply(piece, budget, Next(*this, step + 1, budget, on_word));
  }

  std::vector<std::shared_ptr<const Step>> steps_;
};

}  // namespace neuronmm::text
