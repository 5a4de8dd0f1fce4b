#include "eval/evaluation.h"

#include <algorithm>

#include "eval/perplexity_text.h"
#include "io/compression_record.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

// A data set as tokens: a text's tokens or a task's items.
struct EncodedTask {
  std::vector<TokenId> tokens;
  std::vector<EncodedItem> items;
};

// Encodes a text, cut to `max_chunks` chunks (0 for all). A text shorter than one chunk is an error
// because it has no perplexity by this definition.
Result<std::vector<TokenId>> encode_text(const text::Tokenizer& tokenizer, const LoadedTask& data,
                                         int64_t context, int64_t max_chunks) {
  auto encoded = tokenizer.encode(data.text);
  if (!encoded.ok()) return fail("{}: {}", data.file.string(), encoded.error().message);
  std::vector<TokenId>& tokens = *encoded;
  if (std::ssize(tokens) < context) {
    return fail("{}: the text has {} tokens, fewer than the {} of one chunk", data.file.string(),
                tokens.size(), context);
  }
  const int64_t chunks = std::ssize(tokens) / context;
  if (max_chunks > 0 && max_chunks < chunks) tokens.resize(max_chunks * context);
  return tokens;
}

// Encodes a data set: a text as one sequence of tokens, every other task as items with choices.
Result<EncodedTask> encode(const text::Tokenizer& tokenizer, const LoadedTask& data,
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

// Checks the reference for one text. evaluate() calls it for all texts before the first task runs.
Status check_reference(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                       const LoadedTask& data, const Reference& reference) {
  NMM_TRY(check_comparable(reference.model.config(), transformer.config(),
                           default_context(transformer.config())));
  return check_same_tokens(reference.tokenizer, reference.name, tokenizer,
                           transformer.checkpoint().folder().string(), data.text);
}

// Counts items with at least one request that lost the start of its context, which may lower their
// score.
int64_t count_truncated(const std::vector<EncodedItem>& items) {
  return std::ranges::count_if(items, [](const EncodedItem& item) {
    return std::ranges::any_of(item.requests, &EncodedRequest::truncated);
  });
}

// Runs the model on one task. Errors in its data have been found before.
Result<TaskResult> run(const model::Transformer& transformer, const LoadedTask& data,
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
  progress.start(fmt::format("evaluating {}", data.task->name), std::ssize(encoded.items));
  NMM_ASSIGN(result.likelihoods, log_likelihoods(transformer, encoded.items, progress));
  progress.finish();
  result.score = score_choices(data.items, result.likelihoods.items);
  result.items = data.items;
  result.truncated = count_truncated(encoded.items);
  return result;
}

}  // namespace

// The caller reads all files before it loads the model, so that a wrong path costs seconds, not
// minutes.
Result<std::vector<LoadedTask>> read_tasks(const std::vector<const Task*>& tasks,
                                           const EvaluationSettings& settings) {
  std::vector<LoadedTask> all;
  for (const Task* task : tasks) {
    NMM_ASSIGN(const TaskFiles files, find_files(*task, settings.data));
    LoadedTask& data = all.emplace_back();
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

// All input is encoded before the model computes anything, so that a bad line in the last file is
// found at once. After an interrupt the finished tasks are kept.
Result<Evaluation> evaluate(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                            const std::vector<LoadedTask>& data, const EvaluationSettings& settings,
                            Progress& progress, const Reference* reference) {
  std::vector<EncodedTask> encoded;
  for (const LoadedTask& task : data) {
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
    // A failure of one task ends the evaluation, because a mean over fewer tasks could be mistaken
    // for the whole. An interrupt is not a failure: the finished tasks are reported, and the report
    // says that it is incomplete.
    const Error& error = result.error();
    const std::string message = fmt::format("{}: {}", data[i].task->name, error.message);
    if (error.kind != Error::Kind::kInterrupted) return Error{message};
    if (i == 0) return Error{message + "; no task is finished", error.kind};
    evaluation.interruption = message;
    break;
  }
  return evaluation;
}

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
