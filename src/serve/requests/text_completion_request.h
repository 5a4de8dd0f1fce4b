#pragma once
// Reads the body of POST /v1/completions. prepared_generation.cc parses requests with this file,
// and openapi.cc describes the fields of its table to clients.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/requests/generation_parameters.h"

namespace neuronmm::serve {

using TextOrTokens = std::variant<std::string, std::vector<TokenId>>;

// Returns a text or at least one token id, or nothing if the value is neither.
std::optional<TextOrTokens> text_or_tokens(const Json& value);

// A request to continue one or several prompts.
struct TextCompletionRequest {
  // `max_tokens` is 16 if the client gives no limit.
  GenerationParameters parameters;
  std::vector<TextOrTokens> prompts;  // at least one
  std::string suffix;  // the text after the place that the answer fills; empty if there is none
};

// Limits for one request: the number of prompts, and the number of answers (prompts times n).
inline constexpr size_t kMostPrompts = 1024;
inline constexpr int64_t kMostAnswers = 4096;

// Returns the table of the fields of the body.
const RequestTable& text_completion_table();

// Parses a body. docs/reference/serving_protocol.md lists the fields. The error is for the client,
// with status 400. It names the first wrong field; a body that is not JSON is an error, too.
ApiResult<TextCompletionRequest> parse_text_completion_request(std::string_view body);
// Reads the same fields. Errors are recorded in fields.problem(), and the result is then incomplete
// and must not be used. `fields` must have text_completion_table().
TextCompletionRequest read_text_completion_request(FieldReader& fields);

}  // namespace neuronmm::serve
