#include "eval/evaluation_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "eval/perplexity_json.h"
#include "eval/trade_off.h"

namespace neuronmm::eval {
namespace {

using Json = nlohmann::ordered_json;

// Adds an accuracy under the harness's names.
void add_accuracy(Json& json, const std::string& name, const Accuracy& accuracy) {
  json[name] = accuracy.value;
  json[name + "_stderr"] = accuracy.standard_error;  // NaN becomes null
}

// Serialises JSON. Data sets may hold bytes that are not UTF-8; they become U+FFFD instead of an
// exception.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Returns one item with everything that a comparison with the harness's own log needs.
Json sample(const TaskResult& result, size_t index) {
  const TaskItem& item = result.items[index];
  const std::vector<double>& log_likelihoods = result.likelihoods.items[index];
  Json arguments = Json::array();
  for (const Request& request : item.requests) {
    arguments.push_back(Json::array({request.context, request.continuation}));
  }
  const ItemScore score = score_item(item, log_likelihoods);
  Json json = {{"task", result.task->name},
               {"doc_id", index},
               {"line", item.line},
               {"target", item.gold},
               {"arguments", std::move(arguments)},
               {"log_likelihoods", log_likelihoods},
               {"acc", int{score.acc}}};
  if (score.acc_norm) json["acc_norm"] = int{*score.acc_norm};
  return json;
}

// Returns the values of one task. A text has chunks and a perplexity; other tasks have items and
// accuracies.
Json task_json(const TaskResult& result, const ReferenceResults* reference) {
  Json json = {{"file", result.file.string()}};
  if (result.perplexity) {
    json.update(perplexity_json(*result.perplexity));
    json["calibrated_on_text"] = result.calibrated_on;
    if (result.divergence) json.update(divergence_json(*result.divergence));
    return json;
  }
  add_accuracy(json, "acc", result.score->acc);
  if (result.score->acc_norm) add_accuracy(json, "acc_norm", *result.score->acc_norm);
  json.update({{"items", result.items.size()},
               {"published_items", result.task->published_items},
               {"truncated", result.truncated},
               {"tokens", result.likelihoods.tokens},
               {"computed_tokens", result.likelihoods.computed_tokens},
               {"seconds", result.likelihoods.seconds}});
  if (const TaskResult* dense = reference != nullptr ? reference->find(*result.task) : nullptr) {
    const PairedAccuracy paired = paired_accuracy(*dense, result);
    json["reference_acc"] = dense->score->acc.value;
    add_estimate(json, "acc_lost", paired.accuracy_lost);
    add_estimate(json, "choice_agreement", paired.choice_agreement);
  }
  return json;
}

}  // namespace

const TaskResult* ReferenceResults::find(const Task& task) const {
  const auto found = std::ranges::find(choices, &task, &TaskResult::task);
  return found == choices.end() ? nullptr : &*found;
}

std::string to_json(const Evaluation& evaluation, const EvaluationSettings& settings,
                    const std::string& model, const ReferenceResults* reference) {
  Json results = Json::object();
  for (const TaskResult& result : evaluation.results) {
    results[std::string(result.task->name)] = task_json(result, reference);
  }
  Json json = {{"model", model},
               {"data", settings.data.string()},
               {"limit", settings.limit == 0 ? Json() : Json(settings.limit)},
               {"add_bos", settings.add_bos},
               {"complete", evaluation.interruption.empty()},
               {"results", std::move(results)}};
  if (reference != nullptr) json["reference"] = reference->name;
  // Without a multiple-choice task the keys are absent, not null.
  if (const auto mean = mean_accuracy(evaluation.results)) {
    json["mean_acc"] = mean->value;
    json["mean_acc_tasks"] = mean->tasks;
  }
  return dump(json, 1);
}

std::string samples_json_lines(const Evaluation& evaluation) {
  std::string lines;
  for (const TaskResult& result : evaluation.results) {
    for (size_t i = 0; i < result.items.size(); ++i) lines += dump(sample(result, i), -1);
  }
  return lines;
}

}  // namespace neuronmm::eval
