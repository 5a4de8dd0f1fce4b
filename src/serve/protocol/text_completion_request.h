#pragma once
// Reads the body of POST /v1/completions. prepared_generation.h uses the result. Errors are
// recorded in the reader's RequestProblem, and the client is told the first one.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/protocol/generation_parameters.h"

namespace neuronmm::serve {

using TextOrTokens = std::variant<std::string, std::vector<TokenId>>;

// A request to continue one or several prompts.
struct TextCompletionRequest {
  GenerationParameters parameters;
  std::vector<TextOrTokens> prompts;  // has at least one prompt
};

// Limits for one request: the number of prompts, and prompts times n. Assumed.
inline constexpr size_t kMostPrompts = 1024;
inline constexpr int64_t kMostAnswers = 4096;

// Returns the fields of the body.
const RequestTable& text_completion_table();

// Parses a body. An error names the first field that is wrong.
ApiResult<TextCompletionRequest> parse_text_completion_request(std::string_view body);
TextCompletionRequest read_text_completion_request(FieldReader& fields);

}  // namespace neuronmm::serve
