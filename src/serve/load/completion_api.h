#pragma once
// OpenAI's completions as one who asks sees them: the body of a request, the chunks of an answer.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/load/prompts.h"

namespace neuronmm::load {

enum class Endpoint { kCompletions, kChat };

struct RequestSettings {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;
  // The answer has max_tokens tokens, whatever the model would rather do. A field of vLLM's and
  // llama.cpp's, which servers that do not know it may refuse.
  bool ignore_eos = true;
  std::optional<double> temperature = 0.0;  // none: the server's default
  std::optional<uint64_t> seed;
};

std::string_view endpoint_path(Endpoint endpoint);  // "/v1/completions"

// JSON that asks for a stream with its usage.
std::string request_body(const RequestSettings& settings, const LoadPrompt& prompt);

// One event's data.
struct AnswerChunk {
  enum class Kind {
    kToken,    // `text` is the next piece of the answer, for which the client waited
    kOther,    // the role, a finish_reason, the usage
    kDone,     // the end: [DONE]
    kError,    // `text` is what the server says
    kGarbage,  // `text` is what is wrong with it
  };
  Kind kind = Kind::kOther;
  std::string text = {};
  bool has_choice = false;  // it belongs to the answer itself
  // Where the chunk has a usage.
  std::optional<int64_t> prompt_tokens = {}, completion_tokens = {};
};

AnswerChunk read_chunk(std::string_view data);

// The message of an error's body, `{"error": {"message": ...}}` or another; cut to a line. Empty
// where the body is.
std::string error_message(std::string_view body);

// The names of the models of GET /v1/models; an error where it is not such a list.
Result<std::string> first_model(std::string_view body);

}  // namespace neuronmm::load
