#pragma once
// What form auto becomes: mixed, pivoted or, where weights are rounded to few bits, neurons.
//
// Predicted losses rank the sizes of one form well and two forms badly: what is measured is 2.2 to
// 2.6 times the prediction for pivoted and 2.5 to 4.3 times for mixed, more where less is removed
// (measured on SmolLM2-135M at kept .95 to .5, docs/quality.md). So pivoted loses less where the
// predictions mixed / pivoted are above 2.6 / 2.5, mixed where they are below 2.2 / 4.3, and in
// between nothing is known. Other models have other factors (on the bundled one that of mixed is
// the smaller one), so that predictions decide only where they are kDecisive apart, in either
// direction; else all forms that are close are made and measured.
//
// Fewer neurons are among what mixed chooses from, and are never predicted to lose less. But
// predictions know nothing of rounding, and narrower inputs suffer more from it: SmolLM2 at kept .8
// in 4 bits has a KL of .488 as mixed and .348 as neurons (docs/quality.md).

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/sizes/form.h"

namespace neuronmm::compress {

// 4.3 / 2.2, rounded.
inline constexpr double kDecisive = 2.0;

struct FormCandidate {
  Form form = Form::kMixed;
  double predicted = 0.0;  // nats per token
  // KL(dense ‖ compressed), nats per token, of MLPs that are narrowed by the statistics alone,
  // before down is fitted to what gate and up have become (form_trial.h).
  std::optional<double> measured;
};

struct FormChoice {
  std::vector<FormCandidate> candidates;  // the first of equals is taken
  int64_t tokens = 0;                     // that were measured on; 0: predictions have decided
  bool undecided = false;  // several predictions are less than kDecisive times the smallest
  const FormCandidate& taken() const;
};

// Nats per token of the model in the form.
using MeasureForm = std::function<Result<double>(Form)>;

// `candidates`: at least one. `tokens`: how many there are to measure on; 0: none, and predictions
// decide as well as they can.
Result<FormChoice> choose_form(std::vector<FormCandidate> candidates, int64_t tokens,
                               const MeasureForm& measure);

// "pivoted, KL 0.0412 on 2048 held-out tokens where mixed has 0.0623 (predicted 0.0156 and 0.0153)"
std::string form_choice_text(const FormChoice& choice);

}  // namespace neuronmm::compress
