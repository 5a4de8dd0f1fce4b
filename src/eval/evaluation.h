#pragma once
// A model on the data sets of the evaluation: perplexities of the texts, accuracies of the
// multiple-choice tasks. All files are read and encoded before the model computes anything.

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
#include "text/tokenizer.h"

namespace neuronmm::eval {

struct EvaluationSettings {
  std::filesystem::path data;
  int64_t limit = 0;  // only so many items of a task and chunks of a text; 0: all
  // In the multiple-choice tasks. lm-evaluation-harness lets the tokenizer add its special tokens;
  // up to version 0.4.9.1 it did not.
  bool add_bos = true;
};

// One data set, read.
struct TaskData {
  const Task* task = nullptr;
  std::filesystem::path file;
  std::string text, checksum;   // of a text, and of its file
  std::vector<TaskItem> items;  // of a multiple-choice task
};
Result<std::vector<TaskData>> read_tasks(const std::vector<const Task*>& tasks,
                                         const EvaluationSettings& settings);

struct TaskResult {
  const Task* task = nullptr;
  std::filesystem::path file;
  std::optional<PerplexityReport> perplexity;   // of a text
  std::optional<DivergenceSummary> divergence;  // of a text with a reference
  bool calibrated_on = false;  // a text that the model's own compression record names
  // Of a multiple-choice task:
  std::optional<MultipleChoiceScore> score;
  std::vector<TaskItem> items;
  LogLikelihoods likelihoods;
  int64_t truncated = 0;  // items with a request that lost the begin of its context
};

struct Evaluation {
  std::vector<TaskResult> results;
  std::string stopped;  // what an interrupt left unfinished; empty: all tasks are done
};

// The model before compression, of which texts show what has changed. Multiple-choice tasks are
// compared by the results of both (trade_off.h).
struct Reference {
  const model::Transformer& model;
  const text::Tokenizer& tokenizer;
  std::string name;  // what messages call it
};

// Errors: input that does not fit the model (with its file), a value that is not finite, an
// interrupt before the first task is done; with a reference, another tokenizer or vocabulary.
Result<Evaluation> evaluate(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                            const std::vector<TaskData>& data, const EvaluationSettings& settings,
                            Progress& progress, const Reference* reference = nullptr);

// The unweighted mean of acc over the multiple-choice tasks; nothing where there are none. Of all
// six it is the paper's mAcc.
struct MeanAccuracy {
  double value = 0.0;
  int64_t tasks = 0;
};
std::optional<MeanAccuracy> mean_accuracy(const std::vector<TaskResult>& results);

}  // namespace neuronmm::eval
