#pragma once
// The latency report of the reference system (utils/benchmark.py: e2e_model,
// context_encoding_model, token_generation_model) with its keys, and the usual serving names beside
// it. Throughputs, in tokens per second over the summed time of what was timed:
//   e2e_model               prompt and new tokens over whole generations, as the reference counts
//   context_encoding_model  prompt tokens over prefills
//   token_generation_model  decode calls over their own time. (The reference credits every new
//                           token, though the first comes out of the prefill: 64/63 too fast at 64
//                           tokens.)
//   generated_tokens_per_s  new tokens over whole generations, their prefill included
// prefill_tokens_per_s and decode_tokens_per_s repeat the second and the third by the names that
// people look for.

#include <span>
#include <string>
#include <vector>

#include "eval/latency.h"

namespace neuronmm::eval {

// numpy.percentile(values, percent), method "linear". `values` not empty, 0 <= percent <= 100.
double percentile(std::span<const double> values, double percent);

struct LatencyStatistics {
  double p50 = 0.0, p90 = 0.0, p95 = 0.0, p99 = 0.0, p100 = 0.0, average = 0.0;  // ms
  double throughput = 0.0;                                                       // tokens/s
};
// Of samples in seconds that each handled `tokens_per_sample` tokens. Not empty.
LatencyStatistics latency_statistics(std::span<const double> seconds, double tokens_per_sample);

struct LatencyReport {
  int64_t runs = 0;
  LatencyStatistics end_to_end;        // over runs
  LatencyStatistics context_encoding;  // over runs; its latency is the time to first token, TTFT
  LatencyStatistics token_generation;  // over the decode calls of all runs
  LatencyStatistics time_per_output_token;  // TPOT: a run's mean decode call; over runs
  double generated_tokens_per_s = 0.0;
};
// Latencies are those of the whole batch; throughputs count the tokens of all its sequences.
LatencyReport latency_report(const std::vector<RunLatency>& runs, const LatencySettings& settings);

// How many times as fast `b` is as `a`: a's latencies over b's, b's throughputs over a's.
LatencyReport speedup(const LatencyReport& a, const LatencyReport& b);

// What was measured, for the file's "settings".
struct LatencyContext {
  LatencySettings settings;
  std::string device, model, against;
};
std::string to_json(const LatencyReport& report, const LatencyContext& context);
// {"model", "against", "speedup", "settings"}; speedup = model over against.
std::string to_json(const LatencyReport& model, const LatencyReport& against,
                    const LatencyContext& context);

}  // namespace neuronmm::eval
