#pragma once
// Errors that are returned to the clients of the server: the HTTP status and the fields of
// OpenAI's, Anthropic's and llama.cpp's error objects. All functions that read requests return them
// as ApiResult.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/engine/engine.h"

namespace neuronmm::serve {

// An error with what the client needs to know about it.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {}, code = {};          // an empty text becomes null
  std::optional<int64_t> retry_after_s = {};  // for the header Retry-After
  // Length of a prompt that is too long and the longest length allowed; 0 if the error is another
  // one.
  int64_t prompt_tokens = 0, most_tokens = 0;
};

// A value, or the error to answer instead.
template <typename T>
using ApiResult = Result<T, ApiError>;

// Each of the functions below is for one kind of error. The numbers are the HTTP statuses.
// `param` names the field of the request that is wrong, empty if there is none.
ApiError invalid_request(std::string param, std::string message);          // 400
ApiError context_length_exceeded(std::string param, std::string message);  // 400
// Returns a context_length_exceeded error with the text that clients of OpenAI's server look for,
// which has both lengths.
ApiError prompt_too_long(std::string param, int64_t prompt_tokens, int64_t context_tokens);
ApiError invalid_api_key();                                       // 401
ApiError model_not_found(std::string_view model);                 // 404
ApiError body_too_large(int64_t limit_bytes);                     // 413
ApiError queue_full(std::string message, int64_t retry_after_s);  // 429
ApiError internal_error(std::string message);                     // 500
// `code` is "loading", "draining", "cancelled", "lost" or "too_many_connections".
ApiError unavailable(std::string code, std::string message);  // 503
// Returns the error of a request that memory did not suffice for. The function allocates nothing.
ApiError out_of_memory() noexcept;  // 503, with the code "out_of_memory"
// Returns out_of_memory() if memory has run out, else an internal_error() with the exception's
// text.
ApiError error_of(const std::exception& thrown);

// Returns the error for a request that the engine refused. `param` names the field that has the
// prompt.
ApiError refusal_error(Refusal refusal, const std::string& message, const std::string& param,
                       int64_t retry_after_s);

// Returns OpenAI's error object: {"error": {"message", "type", "param", "code"}}
std::string openai_error_json(const ApiError& error);
// Returns the error object of Anthropic's Messages API: {"type": "error", "error": {"type",
// "message"}}
std::string anthropic_error_json(const ApiError& error);
// Returns the error object of Ollama's protocol: {"error": "message"}
std::string ollama_error_json(const ApiError& error);
// Returns the error object of llama.cpp's own endpoints: {"error": {"code", "message", "type"}}.
// The code is the HTTP status.
std::string llama_cpp_error_json(const ApiError& error);

}  // namespace neuronmm::serve
