#include "serve/http/server_state.h"

#include <algorithm>

#include <sys/resource.h>

#include "serve/protocol/llama_cpp_info.h"
#include "serve/protocol/openapi.h"
#include "serve/protocol/tokenizer_endpoints.h"
#include "serve/requests/json_body.h"
#include "serve/web/page.h"

namespace neuronmm::serve {
namespace {

// File descriptors that are not for connections: model files, the log, the event loop. Assumed.
constexpr int64_t kOtherDescriptors = 64;
// A client may hold one of so many parts of all connections and bytes, but always a few
// connections. Assumed.
constexpr int64_t kClientParts = 4, kFewestOfClient = 64;

// Returns the web page. Its policy allows the page to run its own script and to call this server,
// and forbids everything else, including being shown inside another page. The page's own policy
// (docs/guide/web_page.md) is stricter: it allows only scripts with the right hash.
HttpReply page_reply() {
  return {.content_type = "text/html; charset=utf-8",
          .body = std::string(web::index_page()),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                       "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}}};
}

HttpReply listed_model_reply(const ServedModel& model, std::string_view path) {
  const auto json = model_json(model, model_in_path(path));
  return json.ok() ? HttpReply{.body = *json} : error_reply(json.error());
}

}  // namespace

ConnectionLimits connection_limits(const ServerLimits& limits) {
  int64_t connections = limits.connections;
  rlimit descriptors = {};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur != RLIM_INFINITY) {
    const auto most = static_cast<int64_t>(std::min<rlim_t>(descriptors.rlim_cur, INT32_MAX));
    connections = std::min(connections, std::max(most - kOtherDescriptors, most / 2));
  }
  return {.connections = connections,
          .connections_of_client =
              std::max(connections / kClientParts, std::min(connections, kFewestOfClient)),
          .bytes = limits.held_bytes,
          .bytes_of_client = limits.held_bytes / kClientParts,
          .brief_bytes = limits.brief_bytes};
}

std::optional<ApiError> refusal_now(const ServerState& state) {
  if (state.draining) return unavailable("draining", "The server is shutting down.");
  if (state.service() == nullptr) return unavailable("loading", "The model is being loaded.");
  return std::nullopt;
}

HttpReply immediate_reply(const ServerState& state, Endpoint endpoint, std::string_view path) {
  const auto service = state.service();
  if (endpoint == Endpoint::kPage) return page_reply();
  if (endpoint == Endpoint::kHealth) return {.body = R"({"status":"ok"})"};
  if (endpoint == Endpoint::kVersion) return {.body = version_json(state.options.version)};
  if (endpoint == Endpoint::kOllamaVersion)
    return {.body = ollama_version_json(state.options.version)};
  if (endpoint == Endpoint::kOpenApi) return {.body = std::string(openapi_json())};
  if (endpoint == Endpoint::kReady) {
    if (const auto refusal = refusal_now(state)) return error_reply(*refusal);
    return {.body = R"({"status":"ready"})"};
  }
  if (service == nullptr) return error_reply(*refusal_now(state), path);
  if (endpoint == Endpoint::kOllamaTags)
    return {.body = ollama_tags_json(service->model(), service->ollama_model())};
  if (endpoint == Endpoint::kOllamaPs)
    return {.body = ollama_ps_json(service->model(), service->ollama_model())};
  if (endpoint == Endpoint::kModels) return {.body = models_json(service->model())};
  if (endpoint == Endpoint::kModelByName) return listed_model_reply(service->model(), path);
  if (endpoint == Endpoint::kTokenizerInfo) return {.body = tokenizer_info_json(service->model())};
  if (endpoint == Endpoint::kModelDetails) return {.body = service->description_json()};
  if (endpoint == Endpoint::kLlamaCppProps)
    return {.body = llama_cpp_props_json(service->model(), state.options.version)};
  if (endpoint == Endpoint::kLlamaCppSlots)
    return {.body = llama_cpp_slots_json(service->model(), service->engine().statistics().running)};
  if (endpoint == Endpoint::kLlamaCppAdapters) return {.body = llama_cpp_adapters_json()};
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = service->metrics().prometheus_text(service->engine().statistics(),
                                                     state.connections.size(), state.log->lost())};
}

std::optional<GenerationApi> generation_api(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return GenerationApi::kChatCompletions;
    case Endpoint::kResponses:
      return GenerationApi::kResponses;
    case Endpoint::kAnthropicMessages:
      return GenerationApi::kAnthropicMessages;
    case Endpoint::kTextCompletions:
      return GenerationApi::kTextCompletions;
    case Endpoint::kEmbeddings:
      return GenerationApi::kEmbeddings;
    case Endpoint::kEmbeddingsOfEither:
      return GenerationApi::kEmbeddingsOfEither;
    case Endpoint::kLlamaEmbedding:
      return GenerationApi::kLlamaEmbedding;
    case Endpoint::kOllamaChat:
      return GenerationApi::kOllamaChat;
    case Endpoint::kOllamaGenerate:
      return GenerationApi::kOllamaGenerate;
    case Endpoint::kOllamaEmbed:
      return GenerationApi::kOllamaEmbed;
    case Endpoint::kOllamaEmbeddings:
      return GenerationApi::kOllamaEmbeddings;
    case Endpoint::kLlamaCppCompletion:
      return GenerationApi::kLlamaCppCompletion;
    case Endpoint::kLlamaCppInfill:
      return GenerationApi::kLlamaCppInfill;
    case Endpoint::kEitherCompletion:
      return GenerationApi::kEitherCompletion;
    default:
      return std::nullopt;
  }
}

TokenizerTask tokenizer_task(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kTokenize:
      return TokenizerTask::kTokenize;
    case Endpoint::kDetokenize:
      return TokenizerTask::kDetokenize;
    case Endpoint::kCountTokens:
      return TokenizerTask::kCountTokens;
    case Endpoint::kOllamaShow:
      return TokenizerTask::kOllamaShow;
    default:
      return TokenizerTask::kApplyTemplate;
  }
}

}  // namespace neuronmm::serve
