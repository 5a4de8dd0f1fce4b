#include "eval/perplexity_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace neuronmm::eval {

using nlohmann::ordered_json;

void add_estimate(ordered_json& json, const std::string& name, const Estimate& estimate) {
  json[name] = estimate.value;
  json[name + "_stderr"] = estimate.standard_error;
  json[name + "_interval"] = ordered_json::array({estimate.low(), estimate.high()});
}

ordered_json divergence_json(const DivergenceSummary& summary) {
  ordered_json json = {{"reference_perplexity", summary.dense_perplexity}};
  add_estimate(json, "kl", summary.divergence);
  add_estimate(json, "top1_agreement", summary.agreement);
  add_estimate(json, "nll_difference", summary.added_loss);
  json["perplexity_ratio"] = summary.perplexity_ratio();
  json["perplexity_ratio_interval"] = ordered_json::array(
      {std::exp(summary.added_loss.low()), std::exp(summary.added_loss.high())});
  return json;
}

ordered_json perplexity_json(const PerplexityReport& report) {
  return {{"device", report.device},
          {"perplexity", report.perplexity},
          {"perplexity_stderr", report.standard_error},
          {"context", report.context},
          {"tokens", report.tokens},
          {"chunks", report.chunks},
          {"scored_tokens", report.scored_tokens},
          {"seconds", report.seconds}};
}

}  // namespace neuronmm::eval
