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

enum class AnswerKind { kChat, kItems, kMessages, kCompletion };
enum class TextTask { kTokenize, kDetokenize, kApplyTemplate, kCountTokens };

struct BegunAnswer {
  bool stream = false;
  std::string_view ping = kPingEvent;  // of a stream, for who waits long
  std::vector<std::string> unknown_fields, schema_notes;
  std::shared_ptr<PredictedTimes> predicted;  // null without a simulated device
};

// All functions may be called from any thread. Those that read a body may take long.
class AnswerService {
 public:
  explicit AnswerService(ServiceParts parts);

  const ServedModel& model() const { return parts_.model; }
  const std::string& description_json() const { return parts_.description_json; }
  const std::string& device() const { return parts_.device; }
  Engine& engine() const { return *parts_.engine; }
  Metrics& metrics() { return metrics_; }

  ApiResult<std::string> text_answer(TextTask task, std::string_view body) const;

 private:
  friend class AnswerRun;
  ApiResult<PreparedAnswer> prepare(AnswerKind kind, std::string_view body,
                                    std::shared_ptr<AnswerSink> sink);

  const ServiceParts parts_;
  Metrics metrics_;
  AnswerConstraints constraints_;
};

// One answer, which its client may give up at any time.
class AnswerRun {
 public:
  explicit AnswerRun(std::shared_ptr<AnswerService> service) : service_(std::move(service)) {}

  // Once. The sink may be told things before this returns; they are for the client only after
  // success. Exceptions become errors.
  ApiResult<BegunAnswer> begin(AnswerKind kind, std::string_view body,
                               std::shared_ptr<AnswerSink> sink) noexcept;
  // Nothing more is told to the sink, and the engine's work ends within a step. Before begin() has
  // ended, too; not from within the sink.
  void abandon();

 private:
  ApiResult<BegunAnswer> begin_or_throw(AnswerKind kind, std::string_view body,
                                        std::shared_ptr<AnswerSink> sink);

  const std::shared_ptr<AnswerService> service_;
  std::mutex mutex_;
  bool abandoned_ = false;
  std::shared_ptr<ResponseWriter> writer_;
  std::vector<RequestId> ids_;
};

}  // namespace neuronmm::serve
