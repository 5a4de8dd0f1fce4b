#pragma once
// The model behind the server, as far as requests and answers have to know it; and what the
// endpoints that list it say.

#include <string>
#include <string_view>
#include <vector>

#include "io/generation_config.h"
#include "serve/protocol/api_error.h"
#include "serve/protocol/template_traits.h"
#include "text/tokenizer.h"

namespace neuronmm::serve {

using text::TokenId;

struct ServedModel {
  std::vector<std::string> names;  // at least one; answers have the first, requests may have any
  const text::Tokenizer* tokenizer = nullptr;
  int64_t vocab_size = 0;      // ids of prompts and biases are below
  int64_t context_tokens = 0;  // of prompt and answer
  // What holds where a request says nothing, as in vLLM: temperature, top_k, top_p, min_p,
  // repetition_penalty and max_new_tokens, whatever do_sample is. Where the file is silent too: a
  // temperature of 1 and nothing else.
  io::GenerationConfig generation;
  std::vector<TokenId> stop_tokens;  // model::stop_tokens_of
  TemplateTraits plain_chats,
      tool_chats;                  // of the templates that chats with and without tools have
  std::string system_fingerprint;  // empty: null
  int64_t created = 0;             // Unix time in seconds
};

// Fills in what follows from the tokenizer.
void describe_templates(ServedModel& model);

// 404 where `name` is neither empty nor one of the model's.
ApiResult<bool> check_model(const ServedModel& model, std::string_view name);

// GET /v1/models, /v1/models/NAME and /version.
std::string models_json(const ServedModel& model);
ApiResult<std::string> model_json(const ServedModel& model, std::string_view name);
std::string version_json(std::string_view version);

}  // namespace neuronmm::serve
