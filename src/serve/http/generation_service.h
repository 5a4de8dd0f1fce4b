#pragma once
// Answers requests with a loaded model: from the body of a request to the sink of its response. The
// server's connections use it; nothing here knows about sockets or HTTP. apps/model/serve.cc
// creates the service once the model is loaded, and Server::serve() passes it to the connections
// (connection.h).
//
// Errors are returned as ApiError, which the connection sends to the client: 4xx for a wrong
// request and for a model that is not served, 5xx or 429 if the engine takes no more, and 500 for
// exceptions such as a lack of memory.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/engine/engine.h"
#include "serve/http/measured_listener.h"
#include "serve/http/metrics.h"
#include "serve/http/structured_output_compiler.h"
#include "serve/protocol/ollama_models.h"
#include "serve/protocol/paced_submission.h"
#include "serve/protocol/prepared_generation.h"

namespace neuronmm::serve {

// The parts of a service.
struct ServiceParts {
  ServedModel model;             // its tokenizer must outlive the service
  Engine* engine = nullptr;      // must outlive the service
  std::string description_json;  // GET /v1/model
  std::string device;            // the simulated device, for example "trn1"; empty if none
  // The simulated device's clock in seconds, empty if there is none. Called from the engine's
  // thread.
  std::function<double()> device_clock;
  std::string metrics_prefix;  // beginning of the names in GET /metrics
  // Whether requests may set their priority. Otherwise any client could put itself first.
  bool allow_priority = false;
};

enum class GenerationApi {
  kChatCompletions,
  kResponses,
  kAnthropicMessages,
  kTextCompletions,
  kOllamaChat,
  kOllamaGenerate,
  kEmbeddings,
  kEmbeddingsOfEither,
  kLlamaEmbedding,
  kOllamaEmbed,
  kOllamaEmbeddings,
  kLlamaCppCompletion,
  kLlamaCppInfill,
  kEitherCompletion,  // as the body says, prepare_either_completion()
};
enum class TokenizerTask { kTokenize, kDetokenize, kApplyTemplate, kCountTokens, kOllamaShow };

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kJsonLines = "application/x-ndjson";

// Facts about an accepted answer that the HTTP side needs.
struct StartedGeneration {
  // Whether the request is not submitted yet: RunningGeneration::finish() has to be called.
  bool unfinished = false;
  bool stream = false;
  // The type of a stream, and the event that keeps it alive while the client waits long for the
  // next one. Lines of JSON have no such event.
  std::string_view content_type = kEventStream, ping = kPingEvent;
  std::vector<std::string> unknown_fields, schema_notes;
  std::shared_ptr<PredictedTimes> predicted;  // null without a simulated device
};

// A loaded model with its engine, its metrics and its compiled grammars. All functions may be
// called from any thread. Those that read a body may take long, so the server calls them on its
// WorkPool.
class GenerationService {
 public:
  // `parts` must have an engine, and its model at least one name. Nothing checks this.
  explicit GenerationService(ServiceParts parts);

  const ServedModel& model() const { return parts_.model; }
  const OllamaModel& ollama_model() const { return ollama_model_; }
  const std::string& description_json() const { return parts_.description_json; }
  const std::string& device() const { return parts_.device; }
  Engine& engine() const { return *parts_.engine; }
  Metrics& metrics() { return metrics_; }

  // Ends the compilation of output formats, which are refused from now on.
  void stop_compiling() { structured_output_compiler_.stop(); }

  // The response to a request that needs only the tokenizer.
  struct TokenizerAnswer {
    std::string body;
    std::vector<std::string> unknown_fields;  // of the request
  };
  ApiResult<TokenizerAnswer> run_tokenizer_task(TokenizerTask task, std::string_view body) const;

 private:
  friend class RunningGeneration;
  ApiResult<PreparedGeneration> prepare(GenerationApi api, std::string_view body,
                                        std::shared_ptr<ResponseSink> sink);

  const ServiceParts parts_;
  const OllamaModel ollama_model_;
  Metrics metrics_;
  StructuredOutputCompiler structured_output_compiler_;
};

// An answer, which can be abandoned at any time, for example because its client leaves.
class RunningGeneration {
 public:
  // `client` is the name of the client, which gets its share of the engine.
  RunningGeneration(std::shared_ptr<GenerationService> service, std::string client)
      : service_(std::move(service)), client_(std::move(client)) {}

  // Reads the request and submits it to the engine; may be called once. The sink may be called
  // before this function returns, but its content is for the client only if begin() succeeds.
  // Fails if the request is wrong, if the engine refuses it (submit() in prepared_generation.h), or
  // if abandon() was called before. Exceptions become errors.
  //
  // If the output format takes long to compile, the result is unfinished.
  ApiResult<StartedGeneration> begin(GenerationApi api, std::string_view body,
                                     std::shared_ptr<ResponseSink> sink);
  // Compiles the output format and submits the request, if begin() returned an unfinished result.
  // The same holds as for begin(), except that it may take some seconds.
  ApiResult<StartedGeneration> finish();
  // Stops the answer: the sink is not called again, and the engine ends its work within one step.
  // May be called while begin() still runs, but not from inside the sink.
  void abandon();

 private:
  using Effort = StructuredOutputCompiler::Effort;

  ApiResult<StartedGeneration> begin_or_throw(GenerationApi api, std::string_view body,
                                              std::shared_ptr<ResponseSink> sink);
  // Compiles the output format of prepared_ and submits it.
  ApiResult<StartedGeneration> compile_and_submit(Effort effort);
  template <typename Work>
  ApiResult<StartedGeneration> without_exceptions(const Work& work);

  const std::shared_ptr<GenerationService> service_;
  const std::string client_;
  GenerationApi api_ = GenerationApi::kChatCompletions;
  std::optional<PreparedGeneration> prepared_;  // until it is submitted
  std::mutex mutex_;
  // Written with the mutex. Read without it by the compiler of output formats.
  std::atomic<bool> abandoned_ = false;
  std::shared_ptr<ResponseWriter> writer_;
  std::vector<RequestId> ids_;
  std::shared_ptr<PacedSubmission> paced_;  // null for most requests
};

}  // namespace neuronmm::serve
