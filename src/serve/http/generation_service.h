#pragma once
// A loaded model that answers: everything between a request's body and the sink of its answer. What
// is around it is sockets.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/engine/engine.h"
#include "serve/http/measured_listener.h"
#include "serve/http/metrics.h"
#include "serve/http/structured_output_compiler.h"
#include "serve/protocol/prepared_generation.h"

namespace neuronmm::serve {

struct ServiceParts {
  ServedModel model;                     // its tokenizer must outlive the service
  Engine* engine = nullptr;              // must outlive the service
  std::string description_json;          // GET /v1/model
  std::string device;                    // "trn1"; empty: none that is simulated
  std::function<double()> device_clock;  // of that; called from the engine's thread
  std::string metrics_prefix = "vllm:";
};

enum class GenerationApi { kChatCompletions, kResponses, kAnthropicMessages, kTextCompletions };
enum class TokenizerTask { kTokenize, kDetokenize, kApplyTemplate, kCountTokens };

struct StartedGeneration {
  bool stream = false;
  std::string_view ping = kPingEvent;  // of a stream, for who waits long
  std::vector<std::string> unknown_fields, schema_notes;
  std::shared_ptr<PredictedTimes> predicted;  // null without a simulated device
};

// All functions may be called from any thread. Those that read a body may take long.
class GenerationService {
 public:
  explicit GenerationService(ServiceParts parts);

  const ServedModel& model() const { return parts_.model; }
  const std::string& description_json() const { return parts_.description_json; }
  const std::string& device() const { return parts_.device; }
  Engine& engine() const { return *parts_.engine; }
  Metrics& metrics() { return metrics_; }

  ApiResult<std::string> run_tokenizer_task(TokenizerTask task, std::string_view body) const;

 private:
  friend class RunningGeneration;
  ApiResult<PreparedGeneration> prepare(GenerationApi api, std::string_view body,
                                        std::shared_ptr<ResponseSink> sink);

  const ServiceParts parts_;
  Metrics metrics_;
  StructuredOutputCompiler structured_output_compiler_;
};

// One answer, which its client may give up at any time.
class RunningGeneration {
 public:
  explicit RunningGeneration(std::shared_ptr<GenerationService> service)
      : service_(std::move(service)) {}

  // Once. The sink may be told things before this returns; they are for the client only after
  // success. Exceptions become errors.
  ApiResult<StartedGeneration> begin(GenerationApi api, std::string_view body,
                                     std::shared_ptr<ResponseSink> sink) noexcept;
  // Nothing more is told to the sink, and the engine's work ends within a step. Before begin() has
  // ended, too; not from within the sink.
  void abandon();

 private:
  ApiResult<StartedGeneration> begin_or_throw(GenerationApi api, std::string_view body,
                                              std::shared_ptr<ResponseSink> sink);

  const std::shared_ptr<GenerationService> service_;
  std::mutex mutex_;
  bool abandoned_ = false;
  std::shared_ptr<ResponseWriter> writer_;
  std::vector<RequestId> ids_;
};

}  // namespace neuronmm::serve
