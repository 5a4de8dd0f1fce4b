#pragma once
// Evaluates a model on data sets: perplexities of texts, and accuracies of multiple-choice tasks.
// `neuronmm eval` calls it. All files are read and encoded before the model computes anything.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "eval/log_likelihood.h"
#include "eval/multiple_choice.h"
#include "eval/paired_perplexity.h"
#include "eval/perplexity.h"
#include "eval/task.h"
#include "model/transformer.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::eval {

// The folder of the data sets and the part of them to use.
struct EvaluationSettings {
  std::filesystem::path data;
  int64_t limit = 0;  // the largest number of items of a task and of chunks of a text; 0 for all
  // Whether the tokenizer adds its special tokens in multiple-choice tasks. lm-evaluation-harness
  // does so, except in versions up to 0.4.9.1.
  bool add_bos = true;
};

// A data set as read from its files.
struct LoadedTask {
  const Task* task = nullptr;
  std::filesystem::path file;
  std::string text, checksum;   // a text, and the checksum of its file
  std::vector<TaskItem> items;  // the items of a multiple-choice task
};
// Reads all data sets. Errors name the file, and the line if there is one.
Result<std::vector<LoadedTask>> read_tasks(const std::vector<const Task*>& tasks,
                                           const EvaluationSettings& settings);

// The result of one data set.
struct TaskResult {
  const Task* task = nullptr;
  std::filesystem::path file;
  std::optional<PerplexityReport> perplexity;   // for texts
  std::optional<DivergenceSummary> divergence;  // for texts, if there is a reference
  bool calibrated_on = false;  // the model's own compression record names this text
  // For multiple-choice tasks:
  std::optional<MultipleChoiceScore> score;
  std::vector<TaskItem> items;
  LogLikelihoods likelihoods;
  int64_t truncated = 0;  // the number of items with a request that lost the start of its context
};

// The results of all data sets.
struct Evaluation {
  std::vector<TaskResult> results;
  std::string interruption;  // what an interrupt left unfinished; empty if all tasks are done
};

// The model before compression. Texts are scored with both models together to show what has
// changed. Multiple-choice tasks are compared by their results (trade_off.h).
struct Reference {
  const model::Transformer& model;
  const text::Tokenizer& tokenizer;
  std::string name;  // its name in messages
};

// Evaluates a model on all data sets. Errors: input that does not fit the model (with its file), a
// value that is not finite, and an interrupt before the first task is done. With a reference, a
// different tokenizer or vocabulary is an error, too.
Result<Evaluation> evaluate(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                            const std::vector<LoadedTask>& data, const EvaluationSettings& settings,
                            Progress& progress, const Reference* reference = nullptr);

// The unweighted mean of acc over the multiple-choice tasks. Over all six tasks it is the paper's
// mAcc.
struct MeanAccuracy {
  double value = 0.0;
  int64_t tasks = 0;
};
// Returns nothing if there is no multiple-choice task among the results.
std::optional<MeanAccuracy> mean_accuracy(const std::vector<TaskResult>& results);

}  // namespace neuronmm::eval
