#pragma once
// Cuts text into the words that BPE encodes one by one: the steps of the tokenizer.json in their
// order, each inside the pieces of the one before.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "text/match_budget.h"

namespace neuronmm::text {

// A stretch of text on its way to becoming words.
struct Piece {
  std::string_view text;  // valid UTF-8, not empty
  // How many of its bytes come from the first character of the whole input: some only if the piece
  // opens the input, which Metaspace's scheme "first" asks for.
  size_t head = 0;

  Piece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), head > begin ? std::min(head, end) - begin : 0};
  }
};

class PreTokenizer {
 public:
  using OnWord = std::function<void(std::string_view)>;

  // What a step hands its pieces to: the next step, or who asked for the words.
  class Next {
   public:
    // Pieces that are empty are none.
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

  class Step {
   public:
    virtual ~Step() = default;
    virtual void apply(const Piece& piece, MatchBudget& budget, const Next& next) const = 0;
  };

  void add(std::shared_ptr<const Step> step) { steps_.push_back(std::move(step)); }
  int64_t steps() const { return std::ssize(steps_); }
  // Once the budget is spent the words are wrong.
  void split(const Piece& piece, MatchBudget& budget, const OnWord& on_word) const {
    if (!piece.text.empty()) run_from(0, piece, budget, on_word);
  }

 private:
  // Steps are nested: what one hands on, the next one cuts further, and what the last one hands on
  // is a word.
  void run_from(size_t step, const Piece& piece, MatchBudget& budget, const OnWord& on_word) const {
    if (step == steps_.size()) return on_word(piece.text);
    steps_[step]->apply(piece, budget, Next(*this, step + 1, budget, on_word));
  }

  std::vector<std::shared_ptr<const Step>> steps_;
};

}  // namespace neuronmm::text
