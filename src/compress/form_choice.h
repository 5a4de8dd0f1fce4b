#pragma once
// What form auto becomes: mixed or pivoted.
//
// Predicted losses rank the sizes of one form well and two forms badly: what is measured is 2.2 to
// 2.6 times the prediction for pivoted and 2.5 to 4.3 times for mixed, more where less is removed
// (measured on SmolLM2-135M at kept .95 to .5, docs/quality.md). So pivoted loses less where the
// predictions mixed / pivoted are above 2.6 / 2.5, mixed where they are below 2.2 / 4.3, and in
// between nothing is known. Other models have other factors (on the bundled one that of mixed is
// the smaller one), so that predictions decide only where they are kDecisive apart, in either
// direction; else both forms are made and measured.

#include <functional>
#include <string>

#include "base/result.h"
#include "compress/form.h"

namespace neuronmm::compress {

// 4.3 / 2.2, rounded.
inline constexpr double kDecisive = 2.0;

struct FormChoice {
  // Nats per token. KL(dense ‖ compressed) is of MLPs that are narrowed by the statistics alone,
  // before down is fitted to what gate and up have become (form_trial.h).
  struct Candidate {
    double predicted = 0.0, measured = 0.0;
  };
  Candidate mixed, pivoted;
  int64_t tokens = 0;      // that were measured on; 0: predictions have decided
  bool undecided = false;  // the predictions are not kDecisive apart
  Form taken() const;      // mixed where both are equal
};

// Nats per token of the model in the form.
using MeasureForm = std::function<Result<double>(Form)>;

// `tokens`: how many there are to measure on; 0: none, and predictions decide as well as they can.
Result<FormChoice> choose_form(double predicted_mixed, double predicted_pivoted, int64_t tokens,
                               const MeasureForm& measure);

// "pivoted, KL 0.0412 on 2048 held-out tokens where mixed has 0.0623 (predicted 0.0156 and 0.0153)"
std::string form_choice_text(const FormChoice& choice);

}  // namespace neuronmm::compress
