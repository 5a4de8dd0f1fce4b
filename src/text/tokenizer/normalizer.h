#pragma once
// The normalizer of a tokenizer.json: a list of steps that rewrite a text one after the other.
// Encoding applies it before the text is split into words.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/match_budget.h"

namespace neuronmm::text {

// The list of steps.
class Normalizer {
 public:
  // Rewrites UTF-8 text. A step returns the text itself if nothing changes, a part of it, or text
  // that it wrote to `storage`.
  using Step = std::function<std::string_view(std::string_view text, std::string& storage,
                                              MatchBudget& budget)>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  // Applies all steps. The result may refer to `text` or to `storage`. It is wrong once the budget
  // is spent.
  std::string_view apply(std::string_view text, std::string& storage, MatchBudget& budget) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace neuronmm::text
