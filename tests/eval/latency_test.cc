// This test checks the statistics of latencies, and that models are timed in turns.

#include "eval/latency.h"

#include <limits>
#include <numeric>

#include "eval/eval_test.h"
#include "eval/latency_report.h"

namespace neuronmm::eval {
namespace {

using nlohmann::ordered_json;

TEST(Percentile, MatchesNumpy) {
  const std::vector<double> values = {3.1, 0.7, 12.5, 4.4, 4.4, 9.01, 1.25, 6.6, 2.2, 8.8, 5.05};
  // The expected values are numpy.percentile(values, p).
  const std::pair<double, double> expected[] = {{0, 0.7},     {37.5, 4.075}, {50, 4.4},  {90, 9.01},
                                                {95, 10.755}, {99, 12.151},  {100, 12.5}};
  for (const auto& [percent, value] : expected)
    EXPECT_NEAR(percentile(values, percent), value, 1e-12) << percent;
  EXPECT_EQ(percentile(std::vector{2.5}, 0), 2.5);
  EXPECT_EQ(percentile(std::vector{2.5}, 99), 2.5);
  EXPECT_NEAR(percentile(std::vector{4.0, 1.0, 3.0, 2.0}, 95), 3.85, 1e-12);
}

// The times are those of the sample run in the reference system's README: 32 + 32 tokens, dense
// Llama-3.2-1B.
TEST(LatencyReport, ReproducesThePublishedThroughputs) {
  const std::vector<RunLatency> runs(11, {1.300056, 0.070273, std::vector<double>(31, 0.039088)});
  const LatencyReport report = latency_report(runs, {.prompt_tokens = 32});
  EXPECT_NEAR(report.end_to_end.throughput, 49.23, 0.005);
  EXPECT_NEAR(report.context_encoding.throughput, 455.36, 0.05);
  // The published value is 26.408 = 32 / (31 * 39.088 ms), which counts one token more than was
  // timed.
  EXPECT_NEAR(report.token_generation.throughput * 32 / 31, 26.408, 0.005);
  EXPECT_NEAR(report.token_generation.throughput, 1.0 / 0.039088, 1e-9);
  EXPECT_NEAR(report.generated_tokens_per_s, 32 / 1.300056, 1e-9);
  EXPECT_NEAR(report.end_to_end.p50, 1300.056, 1e-9);
}

TEST(LatencyReport, StatisticsAreOverRunsOrOverCalls) {
  const std::vector<RunLatency> runs = {{1.0, 0.25, {0.1, 0.2, 0.3}}, {3.0, 0.75, {0.3, 0.4, 0.5}}};
  const LatencyReport report = latency_report(runs, {.prompt_tokens = 6});
  EXPECT_EQ(report.runs, 2);
  EXPECT_NEAR(report.end_to_end.average, 2000.0, 1e-9);
  EXPECT_NEAR(report.end_to_end.throughput, 2 * 10 / 4.0, 1e-12);  // runs * tokens / total seconds
  EXPECT_NEAR(report.context_encoding.p90, 700.0, 1e-9);
  EXPECT_NEAR(report.context_encoding.throughput, 12.0, 1e-12);
  EXPECT_NEAR(report.token_generation.p50, 300.0, 1e-9);
  EXPECT_NEAR(report.token_generation.p100, 500.0, 1e-9);
  EXPECT_NEAR(report.token_generation.throughput, 6 / 1.8, 1e-12);
  // The median of the runs' means 200 and 400.
  EXPECT_NEAR(report.time_per_output_token.p50, 300.0, 1e-9);
  EXPECT_NEAR(report.time_per_output_token.p99, 398.0, 1e-9);
  EXPECT_NEAR(report.generated_tokens_per_s, 2 * 4 / 4.0, 1e-12);
}

TEST(LatencyReport, ABatchMultipliesTokensNotLatencies) {
  const std::vector<RunLatency> runs = {{2.0, 0.5, {0.2, 0.4}}};
  const LatencyReport one = latency_report(runs, {.prompt_tokens = 6});
  const LatencyReport four = latency_report(runs, {.prompt_tokens = 6, .batch = 4});
  EXPECT_EQ(four.end_to_end.p50, one.end_to_end.p50);
  EXPECT_EQ(four.token_generation.p99, one.token_generation.p99);
  EXPECT_NEAR(four.end_to_end.throughput, 4 * (6 + 3) / 2.0, 1e-12);
  EXPECT_NEAR(four.context_encoding.throughput, 4 * 6 / 0.5, 1e-12);
  EXPECT_NEAR(four.token_generation.throughput, 4 * 2 / 0.6, 1e-12);
  EXPECT_NEAR(four.generated_tokens_per_s, 4 * 3 / 2.0, 1e-12);
}

TEST(LatencyReport, SpeedupIsTheFirstOverTheSecond) {
  const std::vector<RunLatency> slow = {{3.0, 1.0, {0.5, 0.5}}}, fast = {{1.5, 0.8, {0.1, 0.1}}};
  const LatencyReport ratio = speedup(latency_report(slow, {.prompt_tokens = 4}),
                                      latency_report(fast, {.prompt_tokens = 4}));
  EXPECT_NEAR(ratio.end_to_end.p50, 2.0, 1e-12);
  EXPECT_NEAR(ratio.end_to_end.throughput, 2.0, 1e-12);
  EXPECT_NEAR(ratio.context_encoding.average, 1.25, 1e-12);
  EXPECT_NEAR(ratio.token_generation.p99, 5.0, 1e-12);
  EXPECT_NEAR(ratio.time_per_output_token.average, 5.0, 1e-12);
  EXPECT_NEAR(ratio.generated_tokens_per_s, 2.0, 1e-12);
}

void expect_reference_keys(const ordered_json& json) {
  const std::vector<std::string> keys = {"latency_ms_p50", "latency_ms_p90",  "latency_ms_p95",
                                         "latency_ms_p99", "latency_ms_p100", "latency_ms_avg",
                                         "throughput"};
  for (const char* model : {"e2e_model", "context_encoding_model", "token_generation_model"}) {
    std::vector<std::string> found;
    for (const auto& [key, value] : json.at(model).items()) {
      found.push_back(key);
      EXPECT_TRUE(value.is_number()) << model << " " << key;
    }
    EXPECT_EQ(found, keys) << model;
  }
}

TEST(LatencyReport, JsonHasTheReferenceShape) {
  const LatencyReport a = latency_report({{3.0, 1.0, {0.5, 0.5}}}, {.prompt_tokens = 4});
  const LatencyReport b = latency_report({{1.5, 0.8, {0.1, 0.1}}}, {.prompt_tokens = 4});
  const LatencyContext one = {{4, 3, 1, 0}, "cpu", "dense", ""},
                       two = {{4, 3, 1, 0}, "cpu", "dense", "svd"};
  const auto single = ordered_json::parse(to_json(a, one));
  expect_reference_keys(single);
  EXPECT_NEAR(single["time_to_first_token"]["mean_ms"], 1000.0, 1e-9);
  EXPECT_NEAR(single["time_per_output_token"]["p99_ms"], 500.0, 1e-9);
  EXPECT_EQ(single["settings"]["prompt_tokens"], 4);
  EXPECT_FALSE(single["settings"].contains("against"));

  const auto pair = ordered_json::parse(to_json(a, b, two));
  for (const char* key : {"model", "against", "speedup"}) expect_reference_keys(pair.at(key));
  EXPECT_NEAR(pair["speedup"]["e2e_model"]["latency_ms_avg"], 2.0, 1e-12);
  EXPECT_NEAR(pair["speedup"]["time_per_output_token"]["mean"], 5.0, 1e-12);
  EXPECT_EQ(pair["settings"]["against"], "svd");
}

class MeasureLatency : public EvalTest {
 protected:
  MeasureLatency() : tensors_(model::random_tensors(config_, 21)) {}
  model::Transformer load_on(const ops::Backend& backend) const {
    return value_of(model::load_tiny(config_, tensors_, backend));
  }
  model::TestTensors tensors_;
};

TEST_F(MeasureLatency, AlternatesTheModelsAndTimesEveryCall) {
  WatchedBackend first, second;
  std::string order;  // one letter per forward call
  first.on_attention = [&] { order += 'A'; };
  second.on_attention = [&] { order += 'B'; };
  const model::Transformer a = load_on(first), b = load_on(second);
  const model::Transformer* const models[] = {&a, &b};
  const LatencySettings settings = {.prompt_tokens = 5, .new_tokens = 4, .runs = 3};
  const auto measurement = value_of(measure_latency(models, settings, silent_));
  // A run is one prefill and three decode calls. One round warms up, and three are timed.
  EXPECT_EQ(order, "AAAABBBBBBBBAAAAAAAABBBBBBBBAAAA");
  EXPECT_FALSE(measurement.interrupted);
  ASSERT_EQ(measurement.models.size(), 2u);
  for (const auto& runs : measurement.models) {
    ASSERT_EQ(runs.size(), 3u);
    for (const RunLatency& run : runs) {
      EXPECT_EQ(run.token_generation.size(), 3u);
      EXPECT_GT(run.context_encoding, 0.0);
      EXPECT_GE(run.end_to_end, std::accumulate(run.token_generation.begin(),
                                                run.token_generation.end(), run.context_encoding));
    }
  }
}

TEST_F(MeasureLatency, ABatchDecodesTogether) {
  WatchedBackend watched;
  int calls = 0;
  watched.on_attention = [&] { ++calls; };
  const model::Transformer transformer = load_on(watched);
  const model::Transformer* const models[] = {&transformer};
  const LatencySettings settings = {.prompt_tokens = 5, .new_tokens = 4, .batch = 3, .runs = 1};
  const auto measurement = value_of(measure_latency(models, settings, silent_));
  // Warm-up and run each have one prefill of all prompts and three decode calls.
  EXPECT_EQ(calls, 2 * 4);
  EXPECT_EQ(measurement.models[0][0].token_generation.size(), 3u);
}

TEST_F(MeasureLatency, AnInterruptKeepsTheFinishedRounds) {
  WatchedBackend first, second;
  const model::Transformer a = load_on(first), b = load_on(second);
  const model::Transformer* const models[] = {&a, &b};
  const LatencySettings settings = {.prompt_tokens = 5, .new_tokens = 4, .runs = 10};
  int calls = 0, calls_of_b = 4 * 2 + 1;  // interrupts in the second timed run of B
  second.on_attention = [&] { set_interrupted(++calls == calls_of_b); };
  const auto measurement = value_of(measure_latency(models, settings, silent_));
  EXPECT_TRUE(measurement.interrupted);
  EXPECT_EQ(measurement.models[0].size(), 1u);
  EXPECT_EQ(measurement.models[1].size(), 1u);

  for (const int before_any_run : {1, 4 + 1}) {  // in the warm-up, and in the first timed run
    set_interrupted(false);
    calls = 0;
    calls_of_b = before_any_run;
    const auto nothing = measure_latency(models, settings, silent_);
    EXPECT_EQ(message_of(nothing), "interrupted: no run was finished");
    EXPECT_EQ(nothing.error().kind, Error::Kind::kInterrupted);
  }
}

TEST_F(MeasureLatency, RefusesSettingsThatDoNotFit) {
  const model::Transformer transformer = load_on(backend_);
  const model::Transformer* const models[] = {&transformer};
  const auto message = [&](int64_t prompt_tokens, int64_t new_tokens, int64_t runs) {
    return message_of(measure_latency(models, {prompt_tokens, new_tokens, 1, runs}, silent_));
  };
  EXPECT_EQ(message(60, 4, 1), "no error");
  EXPECT_TRUE(has(message(60, 5, 1),
                  "prompt_tokens 60 and new_tokens 5 do not fit max_position_embeddings 64"));
  EXPECT_TRUE(has(message(INT64_MAX, INT64_MAX, 1), "do not fit"));
  EXPECT_TRUE(has(message(0, 4, 1), "prompt_tokens"));
  EXPECT_TRUE(has(message(4, 1, 1), "new_tokens"));
  EXPECT_TRUE(has(message(4, 2, 0), "runs"));
}

TEST_F(MeasureLatency, AModelWithNanLogitsIsAnError) {
  tensors_["model.norm.weight"].values[0] = std::numeric_limits<float>::quiet_NaN();
  const model::Transformer transformer = load_on(backend_);
  const model::Transformer* const models[] = {&transformer};
  EXPECT_TRUE(has(message_of(measure_latency(models, {4, 2, 1, 1}, silent_)), "finite"));
}

}  // namespace
}  // namespace neuronmm::eval
