#pragma once
// An evaluation as JSON: a value per task under lm-evaluation-harness's names (acc, acc_stderr,
// acc_norm, acc_norm_stderr, perplexity), and every item's log-likelihoods, to compare with its
// --log_samples.

#include <string>

#include "eval/evaluation.h"

namespace neuronmm::eval {

std::string to_json(const Evaluation& evaluation, const EvaluationSettings& settings,
                    const std::string& model);

}  // namespace neuronmm::eval
