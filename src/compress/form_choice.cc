#include "compress/form_choice.h"

#include <fmt/core.h>

namespace neuronmm::compress {

Form FormChoice::taken() const {
  const bool pivots =
      tokens > 0 ? pivoted.measured < mixed.measured : pivoted.predicted < mixed.predicted;
  return pivots ? Form::kPivoted : Form::kMixed;
}

Result<FormChoice> choose_form(double predicted_mixed, double predicted_pivoted, int64_t tokens,
                               const MeasureForm& measure) {
  FormChoice choice;
  choice.mixed.predicted = predicted_mixed;
  choice.pivoted.predicted = predicted_pivoted;
  choice.undecided = predicted_mixed <= kDecisive * predicted_pivoted &&
                     predicted_pivoted <= kDecisive * predicted_mixed;
  if (!choice.undecided || tokens == 0) return choice;
  choice.tokens = tokens;
  NMM_ASSIGN(choice.mixed.measured, measure(Form::kMixed));
  NMM_ASSIGN(choice.pivoted.measured, measure(Form::kPivoted));
  return choice;
}

std::string form_choice_text(const FormChoice& choice) {
  const bool pivots = choice.taken() == Form::kPivoted;
  const FormChoice::Candidate& taken = pivots ? choice.pivoted : choice.mixed;
  const FormChoice::Candidate& left = pivots ? choice.mixed : choice.pivoted;
  const std::string_view name = form_name(choice.taken()),
                         other = form_name(pivots ? Form::kMixed : Form::kPivoted);
  if (choice.tokens == 0) {
    return fmt::format("{} by predicted loss, {:.3g} nats per token where {} has {:.3g} ({})", name,
                       taken.predicted, other, left.predicted,
                       choice.undecided ? "close, but there is no text to spare to measure on"
                                        : "too far apart to be measured");
  }
  return fmt::format(
      "{}, KL {:.3g} on {} held-out tokens where {} has {:.3g} (predicted {:.3g} "
      "and {:.3g})",
      name, taken.measured, choice.tokens, other, left.measured, taken.predicted, left.predicted);
}

}  // namespace neuronmm::compress
