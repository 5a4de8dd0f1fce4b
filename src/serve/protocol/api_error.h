#pragma once
// What a client is told where its request is not answered: OpenAI's error object and the HTTP
// status it comes with.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/engine/engine.h"

namespace neuronmm::serve {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {}, code = {};           // empty: null
  std::optional<int64_t> retry_after_s = {};   // the header Retry-After
  int64_t prompt_tokens = 0, most_tokens = 0;  // of a prompt that is too long, where they are known
};

// A value or what to answer instead.
template <typename T>
using ApiResult = Result<T, ApiError>;

ApiError invalid_request(std::string param, std::string message);          // 400
ApiError context_length_exceeded(std::string param, std::string message);  // 400
// The text that clients of OpenAI's server know, with both numbers.
ApiError prompt_too_long(std::string param, int64_t prompt_tokens, int64_t context_tokens);
ApiError invalid_api_key();                                       // 401
ApiError model_not_found(std::string_view model);                 // 404
ApiError body_too_large(int64_t limit_bytes);                     // 413
ApiError queue_full(std::string message, int64_t retry_after_s);  // 429
ApiError internal_error(std::string message);                     // 500
// `code`: "loading", "draining", "cancelled" or "lost".
ApiError unavailable(std::string code, std::string message);  // 503

// What the engine's refusal is to the client. `param` names the field that has the prompt.
ApiError refusal_error(Refusal refusal, const std::string& message, const std::string& param,
                       int64_t retry_after_s);

// {"error": {"message", "type", "param", "code"}}
std::string openai_error_json(const ApiError& error);
// As Anthropic's Messages API has it: {"type": "error", "error": {"type", "message"}}
std::string anthropic_error_json(const ApiError& error);

}  // namespace neuronmm::serve
