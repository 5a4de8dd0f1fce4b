#pragma once
// What a load test has measured, under the names that vLLM's benchmark gave it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "serve/load/statistics.h"

namespace neuronmm::load {

// A request that was answered to its end. Times in seconds.
struct RequestTiming {
  double ttft = 0.0;         // from the request to the first token's chunk
  double latency = 0.0;      // to the last chunk of the answer
  std::vector<double> gaps;  // between the chunks of tokens, one after the other
  int64_t prompt_tokens = 0, output_tokens = 0;

  // None where there is no second token.
  std::optional<double> tpot() const;
};

// Goodput counts the requests that keep to all of these; in milliseconds.
struct ServiceObjectives {
  std::optional<double> ttft, tpot, e2el;

  bool any() const { return ttft || tpot || e2el; }
  bool kept_by(const RequestTiming& timing) const;
  std::string text() const;  // "ttft <= 500 ms, tpot <= 50 ms"
};

// Adds "ttft:500", "tpot:50" or "e2el:2000".
Status add_objective(std::string_view text, ServiceObjectives& objectives);

struct ErrorCount {
  int64_t count = 0;
  std::string first_message;
};

// What was seen until the end, or until an interrupt.
struct LoadMeasurement {
  std::vector<RequestTiming> completed;
  std::map<std::string, ErrorCount> errors;  // by kind: "status 429", "timeout"
  int64_t unfinished = 0;                    // begun, but not at an end when it was interrupted
  int64_t peak_concurrency = 0;
  double duration = 0.0;  // seconds from the first request to the last end
  bool interrupted = false;
};

struct LoadReport {
  int64_t completed = 0, failed = 0, unfinished = 0, peak_concurrency = 0;
  double duration = 0.0;  // seconds
  int64_t prompt_tokens = 0, output_tokens = 0;
  double request_throughput = 0.0, output_throughput = 0.0, total_throughput = 0.0;  // per second
  Summary ttft, tpot, itl, e2el;                                                     // milliseconds
  ServiceObjectives objectives;
  std::optional<double> goodput;  // requests per second; none without objectives
  std::map<std::string, ErrorCount> errors;
};

LoadReport load_report(const LoadMeasurement& measurement, const ServiceObjectives& objectives);

// Keys as in vLLM's result files where it has them: mean_ttft_ms, p99_itl_ms, output_throughput;
// and "requests", with the times of each in the order of their ends.
nlohmann::ordered_json to_json(const LoadReport& report, const LoadMeasurement& measurement);

}  // namespace neuronmm::load
