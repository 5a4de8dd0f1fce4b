#include "eval/evaluation.h"

#include <algorithm>

#include "eval/perplexity_text.h"
#include "io/compression_record.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

// One data set as tokens.
struct EncodedTask {
  std::vector<TokenId> tokens;
  std::vector<EncodedItem> items;
};

// A text shorter than one chunk has no perplexity by this definition.
Result<std::vector<TokenId>> encode_text(const text::Tokenizer& tokenizer, const TaskData& data,
                                         int64_t context, int64_t max_chunks) {
  auto encoded = tokenizer.encode(data.text);
  if (!encoded.ok()) return fail("{}: {}", data.file.string(), encoded.error().message);
  std::vector<TokenId>& tokens = *encoded;
  if (std::ssize(tokens) < context) {
    return fail("{}: the text has {} tokens, fewer than the {} of one chunk", data.file.string(),
                tokens.size(), context);
  }
  // With a limit on chunks the text is cut before the model sees it.
  const int64_t chunks = std::ssize(tokens) / context;
  if (max_chunks > 0 && max_chunks < chunks) tokens.resize(max_chunks * context);
  return tokens;
}

// A text is scored in chunks; every other task is items with choices.
Result<EncodedTask> encode(const text::Tokenizer& tokenizer, const TaskData& data,
                           const io::ModelConfig& config, const EvaluationSettings& settings) {
  EncodedTask encoded;
  if (data.task->is_text()) {
    NMM_ASSIGN(encoded.tokens,
               encode_text(tokenizer, data, default_context(config), settings.limit));
    return encoded;
  }
  const EncodeRules rules = {settings.add_bos, config.max_position_embeddings};
  NMM_ASSIGN(encoded.items, encode_items(tokenizer, data.items, rules, data.file.string()));
  return encoded;
}

// Before the first task runs, not before the text that it concerns.
Status check_reference(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                       const TaskData& data, const Reference& reference) {
  NMM_TRY(check_comparable(reference.model.config(), transformer.config(),
                           default_context(transformer.config())));
  return check_same_tokens(reference.tokenizer, reference.name, tokenizer,
                           transformer.checkpoint().folder().string(), data.text);
}

// Items of which at least one request lost the begin of its context: their score may be worse for
// it.
int64_t count_truncated(const std::vector<EncodedItem>& items) {
  return std::ranges::count_if(items, [](const EncodedItem& item) {
    return std::ranges::any_of(item.requests, &EncodedRequest::truncated);
  });
}

// The model's part of a task: everything that could be wrong with its data has been found before.
Result<TaskResult> run(const model::Transformer& transformer, const TaskData& data,
                       const EncodedTask& encoded, Progress& progress, const Reference* reference) {
  TaskResult result;
  result.task = data.task;
  result.file = data.file;
  if (data.task->is_text()) {
    const int64_t context = default_context(transformer.config());
    result.calibrated_on = io::calibrated_on(transformer.config(), data.checksum);
    if (reference == nullptr) {
      NMM_ASSIGN(result.perplexity, perplexity(transformer, encoded.tokens, context, progress));
      return result;
    }
    NMM_ASSIGN(const auto paired,
               paired_perplexity(reference->model, transformer, encoded.tokens, context, progress));
    result.perplexity = paired.report;
    result.divergence = paired.divergence;
    return result;
  }
  progress.start(std::string(data.task->name), std::ssize(encoded.items));
  NMM_ASSIGN(result.likelihoods, log_likelihoods(transformer, encoded.items, progress));
  progress.finish();
  result.score = score_choices(data.items, result.likelihoods.items);
  result.items = data.items;
  result.truncated = count_truncated(encoded.items);
  return result;
}

}  // namespace

// All files are read and parsed before the model is loaded, so that a typing error costs seconds
// and not minutes.
Result<std::vector<TaskData>> read_tasks(const std::vector<const Task*>& tasks,
                                         const EvaluationSettings& settings) {
  std::vector<TaskData> all;
  for (const Task* task : tasks) {
    NMM_ASSIGN(const TaskFiles files, find_files(*task, settings.data));
    TaskData& data = all.emplace_back();
    data.task = task;
    data.file = files.items;
    if (task->is_text()) {
      NMM_ASSIGN(PerplexityText read, read_perplexity_text(*task, files));
      data.text = std::move(read.text);
      data.checksum = std::move(read.checksum);
    } else {
      NMM_ASSIGN(data.items, read_items(*task, files, settings.limit));
    }
  }
  return all;
}

// All of the input is encoded before the model computes anything: a bad line in the last file is
// found at once. An interrupt keeps the tasks that are done.
Result<Evaluation> evaluate(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                            const std::vector<TaskData>& data, const EvaluationSettings& settings,
                            Progress& progress, const Reference* reference) {
  std::vector<EncodedTask> encoded;
  for (const TaskData& task : data) {
    if (reference != nullptr && task.task->is_text()) {
      NMM_TRY(check_reference(transformer, tokenizer, task, *reference));
    }
    NMM_ASSIGN(encoded.emplace_back(), encode(tokenizer, task, transformer.config(), settings));
  }
  Evaluation evaluation;
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i].task->is_text()) progress.print(data[i].task->name);
    Result<TaskResult> result = run(transformer, data[i], encoded[i], progress, reference);
    if (result) {
      evaluation.results.push_back(std::move(result).value());
      continue;
    }
    // A failure of one task ends the evaluation, since a mean over fewer tasks would pass for the
    // whole. An interrupt is no failure: what is finished is reported as such.
    const Error& error = result.error();
    const std::string message = fmt::format("{}: {}", data[i].task->name, error.message);
    if (error.kind != Error::Kind::kInterrupted) return Error{message};
    if (i == 0) return Error{message + "; no task is finished", error.kind};
    evaluation.stopped = message;
    break;
  }
  return evaluation;
}

// Of the tasks that have an accuracy; a perplexity has no place in the mean.
std::optional<MeanAccuracy> mean_accuracy(const std::vector<TaskResult>& results) {
  MeanAccuracy mean;
  for (const TaskResult& result : results) {
    if (!result.score) continue;
    mean.value += result.score->acc.value;
    ++mean.tasks;
  }
  if (mean.tasks == 0) return {};
  mean.value /= static_cast<double>(mean.tasks);
  return mean;
}

}  // namespace neuronmm::eval
