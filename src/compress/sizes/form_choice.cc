#include "compress/sizes/form_choice.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace neuronmm::compress {
namespace {

double loss_of(const FormCandidate& candidate, bool by_measurement) {
  if (!by_measurement) return candidate.predicted;
  return candidate.measured.value_or(std::numeric_limits<double>::infinity());
}

const FormCandidate& least(const std::vector<FormCandidate>& candidates, bool by_measurement) {
  return *std::ranges::min_element(candidates, {}, [&](const FormCandidate& candidate) {
    return loss_of(candidate, by_measurement);
  });
}

// Returns "a", "a and b" or "a, b and c".
std::string listed(const std::vector<std::string>& items) {
  if (items.size() < 2) return fmt::format("{}", fmt::join(items, ""));
  return fmt::format("{} and {}", fmt::join(items.begin(), items.end() - 1, ", "), items.back());
}

}  // namespace

const FormCandidate& FormChoice::taken() const { return least(candidates, tokens > 0); }

Result<FormChoice> choose_form(std::vector<FormCandidate> candidates, int64_t tokens,
                               const MeasureForm& measure) {
  FormChoice choice;
  choice.candidates = std::move(candidates);
  const double smallest = least(choice.candidates, false).predicted;
  const auto is_close = [&](const FormCandidate& candidate) {
    return candidate.predicted <= kDecisive * smallest;
  };
  choice.undecided = std::ranges::count_if(choice.candidates, is_close) > 1;
  if (!choice.undecided || tokens == 0) return choice;
  choice.tokens = tokens;
  for (FormCandidate& candidate : choice.candidates) {
    if (!is_close(candidate)) continue;
    NMM_ASSIGN(candidate.measured, measure(candidate.form));
  }
  return choice;
}

std::string form_choice_text(const FormChoice& choice) {
  const FormCandidate& taken = choice.taken();
  const bool measured = choice.tokens > 0;
  std::vector<std::string> others, predicted = {fmt::format("{:.3g}", taken.predicted)};
  for (const FormCandidate& candidate : choice.candidates) {
    if (&candidate == &taken || (measured && !candidate.measured)) continue;
    others.push_back(
        fmt::format("{} has {:.3g}", form_name(candidate.form), loss_of(candidate, measured)));
    predicted.push_back(fmt::format("{:.3g}", candidate.predicted));
  }
  if (!measured) {
    return fmt::format("{} by predicted loss, {:.3g} nats per token where {} ({})",
                       form_name(taken.form), taken.predicted, listed(others),
                       choice.undecided ? "close, but there is no text to spare to measure on"
                                        : "too far apart to be measured");
  }
  return fmt::format("{}, KL {:.3g} on {} held-out tokens where {} (predicted {})",
                     form_name(taken.form), *taken.measured, choice.tokens, listed(others),
                     listed(predicted));
}

}  // namespace neuronmm::compress
