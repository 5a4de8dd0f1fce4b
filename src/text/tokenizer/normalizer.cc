#include "text/tokenizer/normalizer.h"

namespace neuronmm::text {

std::string_view Normalizer::apply(std::string_view text, std::string& storage,
                                   MatchBudget& budget) const {
  std::string other;
  for (const Step& step : steps_) {
    const std::string_view result = step(text, other, budget);
    if (!budget.fits(result.size())) break;
    if (result.data() == text.data() && result.size() == text.size()) continue;
    // A step may return a part of its input, which lies in `storage` or in the caller's text.
    if (result.data() == other.data()) {
      storage.swap(other);
      text = storage;
    } else {
      text = result;
    }
  }
  return text;
}

}  // namespace neuronmm::text
