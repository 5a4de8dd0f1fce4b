#include "eval/evaluation.h"

#include <algorithm>

#include "eval/perplexity_text.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

// One data set as tokens.
struct EncodedTask {
  std::vector<TokenId> tokens;
  std::vector<EncodedItem> items;
};

Result<std::vector<TokenId>> encode_text(const text::Tokenizer& tokenizer, const TaskData& data,
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

int64_t count_truncated(const std::vector<EncodedItem>& items) {
  return std::ranges::count_if(items, [](const EncodedItem& item) {
    return std::ranges::any_of(item.requests, &EncodedRequest::truncated);
  });
}

Result<TaskResult> run(const model::Transformer& transformer, const TaskData& data,
                       const EncodedTask& encoded, Progress& progress) {
  TaskResult result;
  result.task = data.task;
  result.file = data.file;
  if (data.task->is_text()) {
    NMM_ASSIGN(result.perplexity, perplexity(transformer, encoded.tokens,
                                             default_context(transformer.config()), progress));
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

Result<std::vector<TaskData>> read_tasks(const std::vector<const Task*>& tasks,
                                         const EvaluationSettings& settings) {
  std::vector<TaskData> all;
  for (const Task* task : tasks) {
    NMM_ASSIGN(const TaskFiles files, find_files(*task, settings.data));
    TaskData& data = all.emplace_back();
    data.task = task;
    data.file = files.items;
    if (task->is_text()) {
      NMM_ASSIGN(data.text, read_perplexity_text(*task, files));
    } else {
      NMM_ASSIGN(data.items, read_items(*task, files, settings.limit));
    }
  }
  return all;
}

Result<Evaluation> evaluate(const model::Transformer& transformer, const text::Tokenizer& tokenizer,
                            const std::vector<TaskData>& data, const EvaluationSettings& settings,
                            Progress& progress) {
  std::vector<EncodedTask> encoded;
  for (const TaskData& task : data) {
    NMM_ASSIGN(encoded.emplace_back(), encode(tokenizer, task, transformer.config(), settings));
  }
  Evaluation evaluation;
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i].task->is_text()) progress.print(data[i].task->name);
    Result<TaskResult> result = run(transformer, data[i], encoded[i], progress);
    if (result) {
      evaluation.results.push_back(std::move(result).value());
      continue;
    }
    const Error& error = result.error();
    const std::string message = fmt::format("{}: {}", data[i].task->name, error.message);
    if (error.kind != Error::Kind::kInterrupted) return Error{message};
    if (i == 0) return Error{message + "; no task is finished", error.kind};
    evaluation.stopped = message;
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
