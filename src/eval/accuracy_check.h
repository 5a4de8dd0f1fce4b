#pragma once
// The reference system's accuracy check (NeuronX Distributed Inference: logit matching and token
// matching), for `neuronmm check`. The model is fed the reference's tokens (teacher forcing). Every
// position is therefore compared, even after the two have chosen different tokens.
//
// Logit matching passes if two conditions hold at every position:
// - The logits are within the tolerance map. For each {k: (absolute, relative)}, over the k largest
//   reference logits, |difference| <= absolute + relative * max|reference logit|. Without a map,
//   |difference| <= divergence_tol for all logits. This is stricter than the default of the
//   reference system:
//   {None: (1e-5, 0.05), 1000: (1e-5, 0.03), 50: (1e-5, 0.02), 5: (1e-5, 0.01)}
// - If the largest logits belong to different tokens (a divergence), the model's logits of the two
//   tokens are at most divergence_tol apart.
// Token matching passes if there is no divergence: all greedy tokens are equal.
//
// Unlike the reference system, the check does not remove a constant shift between the two sets of
// logits.

#include <optional>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "eval/reference_logits.h"
#include "eval/tolerance_map.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// The kind of check and its tolerances.
struct AccuracyOptions {
  enum class Mode { kLogitMatching, kTokenMatching };
  Mode mode = Mode::kLogitMatching;
  double divergence_tol = 0.001;  // the reference system's default
  std::optional<ToleranceMap> tolerance_map = {};
};

// The difference of one logit, and its place.
struct LogitDeviation {
  double value = 0.0;  // |model - reference|; infinite if the model's logit is not finite
  int64_t sequence = 0, position = 0;
  text::TokenId token = 0;
  float reference_logit = 0.0f, model_logit = 0.0f;
};

// A position where the model and the reference choose different tokens.
struct Divergence {
  int64_t sequence = 0, position = 0;
  text::TokenId reference_token = 0, model_token = 0;
  // The model's logit of its own token minus that of the reference's token, >= 0.
  double logit_gap = 0.0;
};

// The result of a check.
struct AccuracyReport {
  bool passed = false;
  int64_t sequences = 0, positions = 0, divergences = 0;
  LogitDeviation largest_deviation;
  std::optional<Divergence> first_divergence;
  std::string first_failure;  // why the check failed; empty if it passed
};

// Compares the model with the recorded logits. Errors: a vocabulary other than the model's,
// sequences beyond its max_position_embeddings, an interrupt.
Result<AccuracyReport> check_accuracy(const model::Transformer& transformer,
                                      const ReferenceLogits& reference,
                                      const AccuracyOptions& options, Progress& progress);

}  // namespace neuronmm::eval
