#include "serve/requests/api_error.h"

#include <new>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

Json null_if_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string cut_message(const std::string& message) {
  constexpr size_t kMost = 2000;  // in bytes; a message may quote what a client sent
  return message.size() > kMost ? message.substr(0, kMost) + "..." : message;
}

const char* message_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

const char* llama_cpp_error_type(const ApiError& error) {
  if (error.code == "context_length_exceeded") return "exceed_context_size_error";
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
    case 503:
      return "unavailable_error";
    default:
      return error.status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

ApiError invalid_request(std::string param, std::string message) {
  return {.message = std::move(message), .param = std::move(param)};
}

ApiError context_length_exceeded(std::string param, std::string message) {
  return {
      .message = std::move(message), .param = std::move(param), .code = "context_length_exceeded"};
}

ApiError prompt_too_long(std::string param, int64_t prompt_tokens, int64_t context_tokens) {
  ApiError error = context_length_exceeded(
      std::move(param),
      fmt::format("This model's maximum context length is {} tokens. However, your prompt has {} "
                  "tokens, which leaves no room for an answer. Please reduce its length.",
                  context_tokens, prompt_tokens));
  error.prompt_tokens = prompt_tokens;
  error.most_tokens = context_tokens - 1;
  return error;
}

ApiError invalid_api_key() {
  return {.status = 401,
          .message =
              "Incorrect API key provided: expected \"Authorization: Bearer KEY\" with a "
              "key of this server.",
          .code = "invalid_api_key"};
}

ApiError model_not_found(std::string_view model) {
  return {.status = 404,
          .message = fmt::format("The model {} does not exist; GET /v1/models lists what does.",
                                 describe(Json(model))),
          .param = "model",
          .code = "model_not_found"};
}

ApiError body_too_large(int64_t limit_bytes) {
  return {.status = 413,
          .message = fmt::format("The body is larger than {} bytes.", limit_bytes),
          .code = "request_too_large"};
}

ApiError queue_full(std::string message, int64_t retry_after_s) {
  return {.status = 429,
          .message = std::move(message),
          .type = "rate_limit_error",
          .code = "queue_full",
          .retry_after_s = retry_after_s};
}

ApiError internal_error(std::string message) {
  return {.status = 500, .message = std::move(message), .type = "server_error"};
}

ApiError unavailable(std::string code, std::string message) {
  return {.status = 503,
          .message = std::move(message),
          .type = "server_error",
          .code = std::move(code)};
}

// The texts fit into std::string's own buffer, which holds 15 characters.
ApiError out_of_memory() noexcept {
  return {.status = 503,
          .message = "Out of memory.",
          .type = "server_error",
          .code = "out_of_memory",
          .retry_after_s = 1};
}

ApiError error_of(const std::exception& thrown) {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) return out_of_memory();
  return internal_error(thrown.what());
}

ApiError refusal_error(Refusal refusal, const std::string& message, const std::string& param,
                       int64_t retry_after_s) {
  switch (refusal) {
    case Refusal::kInvalid:
      return invalid_request("", message);
    case Refusal::kContextLength:
    case Refusal::kNeverFits:
      return context_length_exceeded(param, message);
    case Refusal::kQueueFull:
      return queue_full(message, retry_after_s);
    case Refusal::kStopping:
      return unavailable("draining", message);
  }
  return internal_error(message);
}

std::string openai_error_json(const ApiError& error) {
  return dump_json({{"error",
                     {{"message", cut_message(error.message)},
                      {"type", error.type},
                      {"param", null_if_empty(error.param)},
                      {"code", null_if_empty(error.code)}}}});
}

std::string anthropic_error_json(const ApiError& error) {
  std::string message = cut_message(error.message);
  // Clients recognize these words and shorten their prompt.
  if (error.prompt_tokens > 0)
    message = fmt::format("prompt is too long: {} tokens > {} maximum. {}", error.prompt_tokens,
                          error.most_tokens, message);
  else if (error.code == "context_length_exceeded")
    message = "prompt is too long: " + message;
  return dump_json({{"type", "error"},
                    {"error", {{"type", message_error_type(error.status)}, {"message", message}}}});
}

std::string ollama_error_json(const ApiError& error) {
  return dump_json({{"error", cut_message(error.message)}});
}

// The form has no place for the name of the field, so the message has it.
std::string llama_cpp_error_json(const ApiError& error) {
  const bool has_name = error.param.empty() || error.message.find(error.param) != std::string::npos;
  const std::string message = has_name ? error.message : error.param + ": " + error.message;
  Json fields = {{"code", error.status},
                 {"message", cut_message(message)},
                 {"type", llama_cpp_error_type(error)}};
  if (error.prompt_tokens > 0) {
    fields["n_prompt_tokens"] = error.prompt_tokens;
    fields["n_ctx"] = error.most_tokens + 1;
  }
  return dump_json({{"error", std::move(fields)}});
}

}  // namespace neuronmm::serve
