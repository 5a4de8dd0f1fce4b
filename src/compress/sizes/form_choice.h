#pragma once
// Chooses the form that `--form auto` stands for: mixed, pivoted or, if weights are rounded to few
// bits, neurons. shape_choice.h is the caller.
//
// Predicted losses (predicted_loss.h) rank the sizes of one form well, but not two different forms.
// The measured loss is a multiple of the predicted one, and the multiple depends on the form. For
// pivoted on SmolLM2-135M it is between 2.2 and 2.6. For mixed it is between 2.5 and 4.3, and
// larger where less is removed (measured, docs/measurements/quality.md). Other models have other
// multiples: on the bundled model that of mixed is the smaller one. Predictions therefore decide
// only if they differ by more than a factor of kDecisive. Otherwise all forms with close
// predictions are made and measured.
//
// Neurons alone are among the choices of mixed and are never predicted to lose less. But
// predictions ignore rounding, and narrower inputs suffer more from it. At 4 bits SmolLM2 loses
// less as neurons than as mixed (measured, docs/measurements/quality.md).

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/sizes/form.h"

namespace neuronmm::compress {

// The factor between predictions from which on they decide: the largest multiple above divided by
// the smallest, 4.3 / 2.2, rounded. Measured.
inline constexpr double kDecisive = 2.0;

// A form with its predicted and measured loss.
struct FormCandidate {
  Form form = Form::kMixed;
  double predicted = 0.0;  // nats per token
  // KL(dense ‖ compressed) in nats per token. It is measured on MLPs that are narrowed by the
  // statistics alone, before down is fitted to the narrowed gate and up (held_out_divergence.h).
  std::optional<double> measured;
};

// All candidates and the decision between them.
struct FormChoice {
  std::vector<FormCandidate> candidates;  // the first of equals is chosen
  int64_t tokens = 0;                     // tokens of the measurement; 0: predictions have decided
  // True if several predictions are less than kDecisive times the smallest one.
  bool undecided = false;
  const FormCandidate& taken() const;
};

// Measures the model in a form and returns its loss in nats per token.
using MeasureForm = std::function<Result<double>(Form)>;

// Chooses from `candidates`, which has at least one. `tokens` is the number of tokens that a
// measurement can use. If it is 0, predictions decide even where they are close. Fails if `measure`
// fails.
Result<FormChoice> choose_form(std::vector<FormCandidate> candidates, int64_t tokens,
                               const MeasureForm& measure);

// Returns a text such as "pivoted, KL 0.0412 on 2048 held-out tokens where mixed has 0.0623
// (predicted 0.0156 and 0.0153)".
std::string form_choice_text(const FormChoice& choice);

}  // namespace neuronmm::compress
