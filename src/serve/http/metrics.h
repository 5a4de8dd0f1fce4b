#pragma once
// The metrics of the server in Prometheus' text format, under the names that vLLM uses, so that
// existing dashboards work. GET /metrics returns them; MeasuredListener and the connections record
// them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "serve/engine/request.h"
#include "serve/engine/statistics.h"

namespace neuronmm::serve {

struct MetricSettings {
  std::string prefix;  // letters, digits, _ and :, not beginning with a digit
  std::string model_name;
  int64_t context_tokens = 0;
  bool predicted = false;  // whether the engine's clock is a simulated device's
};

// The phases of one answer, from the arrival of the request to the last token, in seconds of real
// time.
struct RequestTimes {
  double queue = 0.0, prefill = 0.0, decode = 0.0, total = 0.0;
};

// Counters and histograms. All functions may be called from any thread.
class Metrics {
 public:
  explicit Metrics(const MetricSettings& settings);
  ~Metrics();

  // Record the time from the arrival of a request to the first token of an answer, and the time
  // from one token to the next.
  void record_time_to_first_token(double seconds);
  void record_time_between_tokens(double seconds);
  // Records the length of the prompt of a request that leaves the queue.
  void record_prompt_length(int64_t tokens);
  void record_finished_answer(FinishReason reason, int64_t tokens, const RequestTimes& times);
  // Record how long a simulated device takes to the first token and to the end of all answers of a
  // request. The times are on its clock. Nothing happens if there is no such device.
  void record_predicted_time_to_first_token(double seconds);
  void record_predicted_total_time(double seconds);
  void count_http_response(int status);

  // Returns all metrics in Prometheus' text exposition format, version 0.0.4. `lost_records` is
  // what AccessLog::lost() returns.
  std::string prometheus_text(const Statistics& engine, int64_t connections,
                              int64_t lost_records) const;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace neuronmm::serve
