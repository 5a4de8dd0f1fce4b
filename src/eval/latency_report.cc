#include "eval/latency_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

namespace neuronmm::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMsPerSecond = 1e3;

// Divides a's latencies by b's and b's throughput by a's, so that a value above 1 always means that
// b is faster.
LatencyStatistics statistics_ratio(const LatencyStatistics& a, const LatencyStatistics& b) {
  return {a.p50 / b.p50,
          a.p90 / b.p90,
          a.p95 / b.p95,
          a.p99 / b.p99,
          a.p100 / b.p100,
          a.average / b.average,
          b.throughput / a.throughput};
}

// The keys of the reference's own report, so that one script can compare both.
Json reference_keys(const LatencyStatistics& s) {
  return {{"latency_ms_p50", s.p50},   {"latency_ms_p90", s.p90},   {"latency_ms_p95", s.p95},
          {"latency_ms_p99", s.p99},   {"latency_ms_p100", s.p100}, {"latency_ms_avg", s.average},
          {"throughput", s.throughput}};
}

// The names that serving systems use, in addition to the reference's.
Json serving_keys(const LatencyStatistics& s, const std::string& unit) {
  return {{"mean" + unit, s.average}, {"p50" + unit, s.p50}, {"p99" + unit, s.p99}};
}

// `unit` is "_ms", or empty for ratios.
Json report_keys(const LatencyReport& report, const std::string& unit) {
  return {{"prefill_tokens_per_s", report.context_encoding.throughput},
          {"decode_tokens_per_s", report.token_generation.throughput},
          {"e2e_model", reference_keys(report.end_to_end)},
          {"context_encoding_model", reference_keys(report.context_encoding)},
          {"token_generation_model", reference_keys(report.token_generation)},
          {"time_to_first_token", serving_keys(report.context_encoding, unit)},
          {"time_per_output_token", serving_keys(report.time_per_output_token, unit)},
          {"generated_tokens_per_s", report.generated_tokens_per_s}};
}

// The settings, which must be equal for two reports to be comparable.
Json settings_keys(const LatencyContext& context, int64_t runs) {
  Json json = {{"model", context.model}};
  if (!context.against.empty()) json["against"] = context.against;
  if (!context.draft.empty()) json["draft"] = context.draft;
  json.update({{"device", context.device},
               {"prompt_tokens", context.settings.prompt_tokens},
               {"new_tokens", context.settings.new_tokens},
               {"batch", context.settings.batch},
               {"runs", runs},
               {"warm_up_runs", 1},
               {"seed", context.settings.seed}});
  return json;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

// Interpolates linearly between the two nearest samples, which is numpy.percentile's default.
double percentile(std::span<const double> values, double percent) {
  NMM_CHECK(!values.empty() && percent >= 0.0 && percent <= 100.0);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double rank = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], rank - static_cast<double>(below));
}

// The throughput uses the mean: it is the tokens of all samples over the time of all samples.
LatencyStatistics latency_statistics(std::span<const double> seconds, double tokens_per_sample) {
  const auto ms = [&](double percent) { return kMsPerSecond * percentile(seconds, percent); };
  const double mean =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  return {ms(50), ms(90), ms(95), ms(99), ms(100), kMsPerSecond * mean, tokens_per_sample / mean};
}

LatencyReport latency_report(const std::vector<RunLatency>& runs, const LatencySettings& settings) {
  NMM_CHECK(!runs.empty() && !runs[0].token_generation.empty());
  LatencyReport report;
  std::vector<double> end_to_end, context_encoding, token_generation, time_per_output_token;
  for (const RunLatency& run : runs) {
    // Every decode call is a sample of token_generation. The mean over a run's calls is a sample of
    // time_per_output_token.
    const std::vector<double>& calls = run.token_generation;
    report.draft.add(run.draft);
    end_to_end.push_back(run.end_to_end);
    context_encoding.push_back(run.context_encoding);
    token_generation.insert(token_generation.end(), calls.begin(), calls.end());
    time_per_output_token.push_back(std::accumulate(calls.begin(), calls.end(), 0.0) /
                                    static_cast<double>(calls.size()));
  }
  const auto batch = static_cast<double>(settings.batch);
  const auto prompt = batch * static_cast<double>(settings.prompt_tokens);
  // The decode calls of a run make all tokens except the first.
  const auto generated = batch * static_cast<double>(runs[0].token_generation.size() + 1);
  report.runs = std::ssize(runs);
  report.end_to_end = latency_statistics(end_to_end, prompt + generated);
  report.context_encoding = latency_statistics(context_encoding, prompt);
  report.token_generation = latency_statistics(token_generation, batch);
  report.time_per_output_token = latency_statistics(time_per_output_token, batch);
  report.generated_tokens_per_s = latency_statistics(end_to_end, generated).throughput;
  return report;
}

// Every statistic is divided separately: the ratio of two medians is not the median of ratios.
LatencyReport speedup(const LatencyReport& a, const LatencyReport& b) {
  return {
      .runs = std::min(a.runs, b.runs),
      .end_to_end = statistics_ratio(a.end_to_end, b.end_to_end),
      .context_encoding = statistics_ratio(a.context_encoding, b.context_encoding),
      .token_generation = statistics_ratio(a.token_generation, b.token_generation),
      .time_per_output_token = statistics_ratio(a.time_per_output_token, b.time_per_output_token),
      .generated_tokens_per_s = b.generated_tokens_per_s / a.generated_tokens_per_s};
}

std::string to_json(const LatencyReport& report, const LatencyContext& context) {
  Json json = report_keys(report, "_ms");
  json["settings"] = settings_keys(context, report.runs);
  return dump(json);
}

std::string to_json(const LatencyReport& model, const LatencyReport& against,
                    const LatencyContext& context) {
  Json second = report_keys(against, "_ms");
  if (!context.draft.empty())
    second["draft"] = {{"proposed_tokens", against.draft.proposed},
                       {"accepted_tokens", against.draft.accepted}};
  return dump({{"model", report_keys(model, "_ms")},
               {"against", std::move(second)},
               {"speedup", report_keys(speedup(model, against), "")},
               {"settings", settings_keys(context, model.runs)}});
}

}  // namespace neuronmm::eval
