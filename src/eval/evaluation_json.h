#pragma once
// An evaluation as JSON, under lm-evaluation-harness's names.

#include <string>

#include "eval/evaluation.h"

namespace neuronmm::eval {

// What a reference got in the multiple-choice tasks.
struct ReferenceResults {
  std::string name;
  std::vector<TaskResult> choices;

  const TaskResult* find(const Task& task) const;  // nullptr: the task is a text
};

// A value per task: acc, acc_stderr, acc_norm, acc_norm_stderr, perplexity. With a reference also
// "kl", "top1_agreement", "nll_difference" of texts (perplexity_json.h), "acc_lost" and
// "choice_agreement" of the others.
std::string to_json(const Evaluation& evaluation, const EvaluationSettings& settings,
                    const std::string& model, const ReferenceResults* reference = nullptr);

// Every item of every multiple-choice task, one JSON object per line, to compare with the harness's
// --log_samples: task, doc_id (from 0), line (of the file, from 1), target (the gold choice),
// arguments ([context, continuation] per choice), log_likelihoods, acc, acc_norm.
std::string samples_json_lines(const Evaluation& evaluation);

}  // namespace neuronmm::eval
