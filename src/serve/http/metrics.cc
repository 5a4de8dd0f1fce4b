#include "serve/http/metrics.h"

#include <limits>
#include <sstream>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "serve/http/access_log.h"

namespace neuronmm::serve {
namespace {

using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

// Upper bounds of the histograms' buckets: those of vLLM, and smaller ones for small models on a
// CPU, which are faster than vLLM's first bucket.
const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                    0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0,
                                    20.0,  40.0,  80.0, 160,  640,  2560};
const Buckets kNextTokenSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                   0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1.0,   2.5,
                                   5.0,   7.5,    10.0,  20.0, 40.0,  80.0};
const Buckets kRequestSeconds = {0.01, 0.03, 0.1, 0.3,  0.5,  0.8,  1.0,  1.5,
                                 2.0,  2.5,  5.0, 10.0, 15.0, 20.0, 30.0, 40.0,
                                 50.0, 60.0, 120, 240,  480,  960,  1920, 7680};

// Returns the bounds 1, 2, 5, 10, ... up to the length of the context.
Buckets token_buckets(int64_t most) {
  Buckets buckets;
  for (int64_t decade = 1; decade <= most; decade *= 10) {
    for (const int64_t factor : {1, 2, 5}) {
      if (decade * factor <= most) buckets.push_back(static_cast<double>(decade * factor));
    }
  }
  return buckets;
}

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kError:
    case FinishReason::kNoMemory:
    case FinishReason::kLost:
      break;
  }
  return "error";
}

using Labels = prometheus::Labels;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::vector<ClientMetric::Label> label_list(const Labels& labels) {
  std::vector<ClientMetric::Label> list;
  for (const auto& [name, value] : labels) list.push_back({name, value});
  return list;
}

// Returns a metric with one value, for values that the engine counts itself.
MetricFamily family_of(std::string name, std::string help, MetricType type, const Labels& labels,
                       double value) {
  ClientMetric metric;
  metric.label = label_list(labels);
  if (type == MetricType::Counter) metric.counter.value = value;
  if (type == MetricType::Gauge) metric.gauge.value = value;
  return {std::move(name), std::move(help), type, {std::move(metric)}};
}

MetricFamily step_histogram(std::string name, const Labels& labels, const Statistics& engine) {
  ClientMetric metric;
  metric.label = label_list(labels);
  auto& histogram = metric.histogram;
  uint64_t count = 0;
  for (size_t i = 0; i < engine.step_tokens.size(); ++i) {
    count += static_cast<uint64_t>(engine.step_tokens[i]);
    const bool last = i == kStepTokenBounds.size();
    histogram.bucket.push_back({count, last ? std::numeric_limits<double>::infinity()
                                            : static_cast<double>(kStepTokenBounds[i])});
  }
  histogram.sample_count = count;
  histogram.sample_sum = static_cast<double>(engine.step_tokens_sum);
  return {std::move(name), "Tokens per forward pass.", MetricType::Histogram, {std::move(metric)}};
}

}  // namespace

struct Metrics::Families {
  explicit Families(const MetricSettings& settings_in)
      : settings(settings_in),
        labels{{"model_name", settings_in.model_name}, {"engine", "0"}},
        success(prometheus::BuildCounter()
                    .Name(name("request_success_total"))
                    .Help("Answers that ended, by why.")
                    .Labels(labels)
                    .Register(registry)),
        responses(prometheus::BuildCounter()
                      .Name("http_responses_total")
                      .Help("Responses by status.")
                      .Register(registry)),
        first_token(histogram("time_to_first_token_seconds", "From the request to the first token.",
                              kFirstTokenSeconds)),
        next_token(histogram("inter_token_latency_seconds", "Between two tokens of an answer.",
                             kNextTokenSeconds)),
        total(histogram("e2e_request_latency_seconds", "From the request to the last token.",
                        kRequestSeconds)),
        queue(histogram("request_queue_time_seconds", "Before the prompt's computation begins.",
                        kRequestSeconds)),
        prefill(histogram("request_prefill_time_seconds", "From there to the first token.",
                          kRequestSeconds)),
        decode(histogram("request_decode_time_seconds", "From the first token to the last.",
                         kRequestSeconds)),
        inference(
            histogram("request_inference_time_seconds", "Prefill and decode.", kRequestSeconds)),
        prompt_tokens(histogram("request_prompt_tokens", "Tokens of a prompt.",
                                token_buckets(settings.context_tokens))),
        generated_tokens(histogram("request_generation_tokens", "Tokens of an answer.",
                                   token_buckets(settings.context_tokens))) {
    for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                      FinishReason::kCancelled, FinishReason::kError})
      success.Add({{"finished_reason", reason_name(reason)}});
    if (!settings.predicted) return;
    predicted_first = &histogram("predicted_time_to_first_token_seconds",
                                 "The same on the simulated device.", kFirstTokenSeconds);
    predicted_total = &histogram("predicted_e2e_request_latency_seconds",
                                 "The same on the simulated device.", kRequestSeconds);
  }

  std::string name(const char* rest) const { return settings.prefix + rest; }
  Histogram& histogram(const char* rest, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram()
        .Name(name(rest))
        .Help(help)
        .Labels(labels)
        .Register(registry)
        .Add({}, buckets);
  }

  const MetricSettings settings;
  const Labels labels;
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>&success, &responses;
  Histogram &first_token, &next_token, &total, &queue, &prefill, &decode, &inference;
  Histogram &prompt_tokens, &generated_tokens;
  Histogram *predicted_first = nullptr, *predicted_total = nullptr;
};

Metrics::Metrics(const MetricSettings& settings)
    : families_(std::make_unique<Families>(settings)) {}
Metrics::~Metrics() = default;

void Metrics::record_time_to_first_token(double seconds) {
  families_->first_token.Observe(seconds);
}
void Metrics::record_time_between_tokens(double seconds) { families_->next_token.Observe(seconds); }
void Metrics::record_prompt_length(int64_t tokens) {
  families_->prompt_tokens.Observe(static_cast<double>(tokens));
}

void Metrics::record_finished_answer(FinishReason reason, int64_t tokens,
                                     const RequestTimes& times) {
  Families& to = *families_;
  to.success.Add({{"finished_reason", reason_name(reason)}}).Increment();
  to.total.Observe(times.total);
  to.queue.Observe(times.queue);
  to.prefill.Observe(times.prefill);
  to.decode.Observe(times.decode);
  to.inference.Observe(times.prefill + times.decode);
  to.generated_tokens.Observe(static_cast<double>(tokens));
}

void Metrics::record_predicted_time_to_first_token(double seconds) {
  if (families_->predicted_first != nullptr) families_->predicted_first->Observe(seconds);
}
void Metrics::record_predicted_total_time(double seconds) {
  if (families_->predicted_total != nullptr) families_->predicted_total->Observe(seconds);
}

void Metrics::count_http_response(int status) {
  families_->responses.Add({{"status", std::to_string(status)}}).Increment();
}

std::string Metrics::prometheus_text(const Statistics& engine, int64_t connections,
                                     int64_t lost_records) const {
  const Families& from = *families_;
  std::vector<MetricFamily> all = from.registry.Collect();
  const auto add = [&](MetricType type, const char* name, const char* help, auto value) {
    all.push_back(family_of(from.name(name), help, type, from.labels, static_cast<double>(value)));
  };
  constexpr auto kGauge = MetricType::Gauge, kCounter = MetricType::Counter;
  const double blocks = static_cast<double>(engine.kv_blocks);
  add(kGauge, "num_requests_running", "Answers that are computed.", engine.running);
  add(kGauge, "num_requests_waiting", "Requests that wait.", engine.waiting);
  add(kGauge, "kv_cache_usage_perc", "Share of the keys' and values' blocks in use, up to 1.",
      blocks > 0 ? static_cast<double>(engine.kv_blocks_in_use) / blocks : 0.0);
  add(kCounter, "prompt_tokens_total", "Tokens of prompts, computed or cached.",
      engine.prompt_tokens);
  add(kCounter, "generation_tokens_total", "Tokens of answers.", engine.generated_tokens);
  add(kCounter, "num_preemptions_total", "Answers that gave their memory back for a while.",
      engine.preemptions);
  add(kCounter, "prefix_cache_queries_total", "Tokens that were looked for in the prefix cache.",
      engine.prefix_queries);
  add(kCounter, "prefix_cache_hits_total", "Tokens that were found there.", engine.prefix_hits);
  if (engine.has_draft) {
    add(kCounter, "spec_decode_num_drafts_total", "Steps of answers that had proposals.",
        engine.drafts);
    add(kCounter, "spec_decode_num_draft_tokens_total", "Tokens that the draft proposed.",
        engine.proposed_tokens);
    add(kCounter, "spec_decode_num_accepted_tokens_total", "Proposed tokens that were accepted.",
        engine.accepted_tokens);
  }
  if (from.settings.predicted)
    add(kCounter, "predicted_step_seconds_total", "Time of all steps on the simulated device.",
        engine.step_seconds);
  Labels cache = from.labels;
  cache["block_size"] = "128";
  cache["num_gpu_blocks"] =
      std::to_string(engine.kv_blocks);  // vLLM's name for this field, also on a CPU
  cache["enable_prefix_caching"] = "True";
  all.push_back(family_of(from.name("cache_config_info"), "The memory of keys and values.", kGauge,
                          cache, 1.0));
  all.push_back(family_of("http_connections", "Open connections.", kGauge, {},
                          static_cast<double>(connections)));
  all.push_back(family_of(kLostRecordsMetric, "Lines that the access log has lost.", kCounter, {},
                          static_cast<double>(lost_records)));
  all.push_back(step_histogram(from.name("iteration_tokens_total"), from.labels, engine));
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, all);
  return std::move(out).str();
}

}  // namespace neuronmm::serve
