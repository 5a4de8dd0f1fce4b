#include "serve/http/generation_service.h"

#include <array>
#include <chrono>
#include <exception>
#include <random>
#include <utility>

#include <openssl/evp.h>

#include "serve/protocol/llama_cpp_completion.h"
#include "serve/protocol/ollama_generation.h"
#include "serve/protocol/prepared_embedding.h"
#include "serve/protocol/tokenizer_endpoints.h"

namespace neuronmm::serve {
namespace {

// Seconds after which a client may try again that the engine's queue has refused. Assumed.
constexpr int64_t kRetryAfterS = 1;

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t random_number() {
  thread_local std::mt19937_64 random{(uint64_t{std::random_device{}()} << 32) ^
                                      std::random_device{}()};
  return random();
}

MetricSettings metric_settings(const ServiceParts& parts) {
  return {.prefix = parts.metrics_prefix,
          .model_name = parts.model.names.front(),
          .context_tokens = parts.model.context_tokens,
          .predicted = static_cast<bool>(parts.device_clock)};
}

// Returns the SHA-256 of a text as hexadecimal digits.
std::string sha256_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  NMM_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

using Prepare = decltype(&prepare_chat_completion);

Prepare prepare_of(GenerationApi api) {
  switch (api) {
    case GenerationApi::kChatCompletions:
      return prepare_chat_completion;
    case GenerationApi::kResponses:
      return prepare_responses_api;
    case GenerationApi::kAnthropicMessages:
      return prepare_anthropic;
    case GenerationApi::kTextCompletions:
      return prepare_text_completion;
    case GenerationApi::kOllamaChat:
      return prepare_ollama_chat;
    case GenerationApi::kOllamaGenerate:
      return prepare_ollama_generate;
    case GenerationApi::kEmbeddings:
      return prepare_openai_embeddings;
    case GenerationApi::kEmbeddingsOfEither:
      return prepare_embeddings_of_either;
    case GenerationApi::kLlamaEmbedding:
      return prepare_llama_embedding;
    case GenerationApi::kOllamaEmbed:
      return prepare_ollama_embed;
    case GenerationApi::kOllamaEmbeddings:
      return prepare_ollama_embeddings;
    case GenerationApi::kLlamaCppCompletion:
      return prepare_llama_cpp_completion;
    case GenerationApi::kLlamaCppInfill:
      return prepare_llama_cpp_infill;
    case GenerationApi::kEitherCompletion:
      return prepare_either_completion;
  }
  return prepare_text_completion;
}

// Sets the type of a stream and its ping.
void describe_stream(GenerationApi api, StartedGeneration& started) {
  if (api == GenerationApi::kAnthropicMessages) started.ping = kTypedPingEvent;
  if (api != GenerationApi::kOllamaChat && api != GenerationApi::kOllamaGenerate) return;
  started.content_type = kJsonLines;
  started.ping = {};
}

}  // namespace

GenerationService::GenerationService(ServiceParts parts)
    : parts_(std::move(parts)),
      ollama_model_(serve::ollama_model(parts_.model, parts_.description_json,
                                        sha256_of(parts_.description_json))),
      metrics_(metric_settings(parts_)),
      structured_output_compiler_(parts_.model) {}

ApiResult<GenerationService::TokenizerAnswer> GenerationService::run_tokenizer_task(
    TokenizerTask task, std::string_view body) const {
  TokenizerAnswer answer;
  const auto run = [&]() -> ApiResult<std::string> {
    std::vector<std::string>* const unknown = &answer.unknown_fields;
    switch (task) {
      case TokenizerTask::kTokenize:
        return tokenize_response(parts_.model, body, unknown);
      case TokenizerTask::kDetokenize:
        return detokenize_response(parts_.model, body, unknown);
      case TokenizerTask::kCountTokens:
        return count_tokens_response(parts_.model, body, unknown);
      case TokenizerTask::kOllamaShow:
        return ollama_show_json(parts_.model, ollama_model_, body, unknown);
      case TokenizerTask::kApplyTemplate:
        break;
    }
    return apply_template_response(parts_.model, body, unknown);
  };
  NMM_ASSIGN(answer.body, run());
  return answer;
}

ApiResult<PreparedGeneration> GenerationService::prepare(GenerationApi api, std::string_view body,
                                                         std::shared_ptr<ResponseSink> sink) {
  const GenerationContext context{std::move(sink), unix_seconds(), random_number};
  return prepare_of(api)(parts_.model, body, context);
}

ApiResult<StartedGeneration> RunningGeneration::begin_or_throw(GenerationApi api,
                                                               std::string_view body,
                                                               std::shared_ptr<ResponseSink> sink) {
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return internal_error("the client has gone");
  }
  api_ = api;
  NMM_ASSIGN(prepared_, service_->prepare(api, body, std::move(sink)));
  return compile_and_submit(Effort::kQuick);
}

ApiResult<StartedGeneration> RunningGeneration::compile_and_submit(Effort effort) {
  NMM_ASSIGN(auto constraint, service_->structured_output_compiler_.compile(
                                  prepared_->structured_output, client_, effort, abandoned_));
  if (!constraint) {
    StartedGeneration unfinished;
    unfinished.unfinished = true;
    return unfinished;
  }
  PreparedGeneration prepared = std::move(*prepared_);
  prepared_.reset();
  for (Request& request : prepared.requests) request.make_constraint = constraint->make;
  prepared.schema_notes = std::move(constraint->notes);
  StartedGeneration started{.stream = prepared.stream,
                            .unknown_fields = prepared.unknown_fields,
                            .schema_notes = prepared.schema_notes,
                            .predicted = nullptr};
  describe_stream(api_, started);
  const ServiceParts& parts = service_->parts_;
  if (parts.device_clock) started.predicted = std::make_shared<PredictedTimes>();
  for (Request& request : prepared.requests) {
    request.client = client_;
    if (!parts.allow_priority) request.priority = 0;
  }
  const MeasurementTargets targets{&service_->metrics_, parts.device_clock, started.predicted};
  for (size_t i = 0; i < prepared.listeners.size(); ++i)
    prepared.listeners[i] =
        make_measured_listener(prepared.listeners[i], prepared.requests[i], targets);
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return internal_error("the client has gone");
    writer_ = prepared.writer;
  }
  Engine& engine = *parts.engine;
  if (prepared.paced) {
    const auto paced = std::make_shared<PacedSubmission>(std::move(prepared), engine, kRetryAfterS);
    NMM_TRY(paced->start());
    const std::lock_guard lock(mutex_);
    if (abandoned_) paced->cancel();
    paced_ = paced;
    return started;
  }
  NMM_ASSIGN(std::vector<RequestId> ids, submit(std::move(prepared), engine, kRetryAfterS));
  const std::lock_guard lock(mutex_);
  if (abandoned_) {
    for (const RequestId id : ids) engine.cancel(id);
  }
  ids_ = std::move(ids);
  return started;
}

ApiResult<StartedGeneration> RunningGeneration::begin(GenerationApi api, std::string_view body,
                                                      std::shared_ptr<ResponseSink> sink) {
  return without_exceptions([&] { return begin_or_throw(api, body, std::move(sink)); });
}

ApiResult<StartedGeneration> RunningGeneration::finish() {
  return without_exceptions([&] { return compile_and_submit(Effort::kFull); });
}

template <typename Work>
ApiResult<StartedGeneration> RunningGeneration::without_exceptions(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    abandon();
    return error_of(error);
  }
}

void RunningGeneration::abandon() {
  std::shared_ptr<ResponseWriter> writer;
  std::shared_ptr<PacedSubmission> paced;
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    writer = writer_;
    paced = paced_;
    ids = std::move(ids_);
  }
  if (writer) writer->close();
  if (paced) paced->cancel();
  for (const RequestId id : ids) service_->engine().cancel(id);
}

}  // namespace neuronmm::serve
