#pragma once
// The body of POST /v1/completions.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/protocol/generation_parameters.h"

namespace neuronmm::serve {

using TextOrTokens = std::variant<std::string, std::vector<TokenId>>;

struct TextCompletionRequest {
  GenerationParameters
      parameters;  // max_tokens is set, to 16 where nothing is said; 0 only beside echo
  std::vector<TextOrTokens> prompts;  // at least one
};

inline constexpr size_t kMostPrompts = 1024;   // of one request
inline constexpr int64_t kMostAnswers = 4096;  // prompts times n

// The fields of the body.
const RequestTable& text_completion_table();

// docs/serving_protocol.md has the fields. Errors name the first one that is wrong.
ApiResult<TextCompletionRequest> parse_text_completion_request(std::string_view body);
TextCompletionRequest read_text_completion_request(
    FieldReader& fields);  // wrong: the reader's problem

}  // namespace neuronmm::serve
