#pragma once
// The latency report of the reference system (utils/benchmark.py: e2e_model,
// context_encoding_model, token_generation_model) with its keys, and with the names that serving
// systems use. Throughputs are in tokens per second over the summed time of the timed parts:
//   e2e_model               prompt and new tokens over whole generations, as the reference counts
//   context_encoding_model  prompt tokens over prefills
//   token_generation_model  decode calls over their own time. The reference credits every new
//                           token, although the first comes from the prefill, and so reports
//                           64/63 of this value for 64 tokens.
//   generated_tokens_per_s  new tokens over whole generations, including their prefill
//   prefill_tokens_per_s    repeats context_encoding_model under the usual name
//   decode_tokens_per_s     repeats token_generation_model under the usual name

#include <span>
#include <string>
#include <vector>

#include "eval/latency.h"

namespace neuronmm::eval {

// Returns numpy.percentile(values, percent) with method "linear". `values` must not be empty, and 0
// <= percent <= 100.
double percentile(std::span<const double> values, double percent);

// Percentiles and mean of one kind of time, and the throughput.
struct LatencyStatistics {
  double p50 = 0.0, p90 = 0.0, p95 = 0.0, p99 = 0.0, p100 = 0.0, average = 0.0;  // ms
  double throughput = 0.0;                                                       // tokens/s
};
// Computes the statistics of samples in seconds, each of which handled `tokens_per_sample` tokens.
// There must be at least one.
LatencyStatistics latency_statistics(std::span<const double> seconds, double tokens_per_sample);

// Statistics over all runs of one model.
struct LatencyReport {
  int64_t runs = 0;
  LatencyStatistics end_to_end;        // over runs
  LatencyStatistics context_encoding;  // over runs; its latency is the time to first token (TTFT)
  LatencyStatistics token_generation;  // over the decode calls of all runs
  LatencyStatistics time_per_output_token;  // over runs: the mean decode call of a run (TPOT)
  double generated_tokens_per_s = 0.0;
  model::DraftCounts draft = {};  // over all runs
};
// Makes the report. Latencies are those of the whole batch; throughputs count the tokens of all its
// sequences.
LatencyReport latency_report(const std::vector<RunLatency>& runs, const LatencySettings& settings);

// Returns how many times as fast `b` is as `a`: a's latencies divided by b's, and b's throughputs
// divided by a's.
LatencyReport speedup(const LatencyReport& a, const LatencyReport& b);

// The settings and names that go into "settings" of the file.
struct LatencyContext {
  LatencySettings settings;
  std::string device, model, against;
  std::string draft = {};  // what proposed tokens for the second model
};
// Returns the keys of the reference system, those of serving systems, and "settings". Latencies are
// in milliseconds.
std::string to_json(const LatencyReport& report, const LatencyContext& context);
// Returns {"model", "against", "speedup", "settings"}; "speedup" is how many times as fast
// `against` is as `model`. With a draft, "against" is the same model, and has "draft".
std::string to_json(const LatencyReport& model, const LatencyReport& against,
                    const LatencyContext& context);

}  // namespace neuronmm::eval
