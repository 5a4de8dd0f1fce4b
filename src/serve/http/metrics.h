#pragma once
// What the server tells Prometheus, under vLLM's names.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "serve/engine/request.h"
#include "serve/engine/statistics.h"

namespace neuronmm::serve {

struct MetricSettings {
  std::string prefix = "vllm:";  // letters, digits, _ and :, no digit first
  std::string model_name;
  int64_t context_tokens = 0;
  bool predicted = false;  // the engine's clock is a simulated device's
};

// One answer from its arrival to its last token, in seconds on the wall's clock.
struct RequestTimes {
  double queue = 0.0, prefill = 0.0, decode = 0.0, total = 0.0;
};

// May be called from any thread.
class Metrics {
 public:
  explicit Metrics(const MetricSettings& settings);
  ~Metrics();

  void first_token(double seconds);  // since the arrival
  void next_token(double seconds);   // since the token before it
  void prompt(int64_t tokens);       // of a request that begins
  void finished(FinishReason reason, int64_t tokens, const RequestTimes& times);
  // On the simulated device's clock; nothing where there is none.
  void predicted_first_token(double seconds);
  void predicted_total(double seconds);
  void http_response(int status);

  // The exposition format, version 0.0.4.
  std::string text(const Statistics& engine, int64_t connections) const;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace neuronmm::serve
