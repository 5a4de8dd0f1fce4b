#pragma once
// The normalizer of a tokenizer.json: steps that rewrite a text, one after the other.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/match_budget.h"

namespace neuronmm::text {

class Normalizer {
 public:
  // From UTF-8 to UTF-8: the text itself where nothing changes, or what was written to `storage`.
  using Step = std::function<std::string_view(std::string_view text, std::string& storage,
                                              MatchBudget& budget)>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  // Once the budget is spent the result is wrong.
  std::string_view apply(std::string_view text, std::string& storage, MatchBudget& budget) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace neuronmm::text
