#pragma once
// Writes an evaluation as JSON, under the names of lm-evaluation-harness. `neuronmm eval` writes
// both files.

#include <string>

#include "eval/evaluation.h"

namespace neuronmm::eval {

// A reference model's results in the multiple-choice tasks.
struct ReferenceResults {
  std::string name;
  std::vector<TaskResult> choices;

  // Returns the result of a task, or nullptr if the task is a text.
  const TaskResult* find(const Task& task) const;
};

// Returns one JSON object. For every task it has the values acc, acc_stderr, acc_norm and
// acc_norm_stderr, or perplexity. With a reference, texts also have "kl", "top1_agreement" and
// "nll_difference" (perplexity_json.h), and other tasks "acc_lost" and "choice_agreement".
std::string to_json(const Evaluation& evaluation, const EvaluationSettings& settings,
                    const std::string& model, const ReferenceResults* reference = nullptr);

// Returns one JSON object per line for every item of every multiple-choice task, for comparison
// with the harness's --log_samples. The keys are:
//   task, doc_id      the task's name; the item's number from 0
//   line              the line of the file, from 1
//   target            the right choice
//   arguments         [context, continuation] per choice
//   log_likelihoods   one per choice
//   acc, acc_norm     1 if the choice by that rule is right, else 0
std::string samples_json_lines(const Evaluation& evaluation);

}  // namespace neuronmm::eval
