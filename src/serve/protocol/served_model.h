#pragma once
// The properties of the served model that requests and answers depend on, and the answers of the
// endpoints that list models. apps/model/serve.cc fills in a ServedModel; all readers and writers
// of the protocol get it.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/generation_config.h"
#include "serve/engine/pooled_embedding.h"
#include "serve/output/template_traits.h"
#include "serve/protocol/sequence_breakers.h"
#include "serve/requests/api_error.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::serve {

using text::TokenId;

// Sizes that clients of llama.cpp read from the list of models. 0 stands for an unknown size.
struct ModelSizes {
  int64_t trained_context_tokens = 0, hidden_size = 0, parameters = 0, bytes = 0;
};

// Properties of the model.
struct ServedModel {
  // At least one name. Answers have the first one, requests may use any.
  std::vector<std::string> names;
  // Whether requests may use every other name, too. An answer then has the name that was asked for.
  bool any_name = false;
  const text::Tokenizer* tokenizer = nullptr;
  int64_t vocab_size = 0;            // bound of token ids in prompts and logit biases
  int64_t context_tokens = 0;        // limit for prompt and answer together
  int64_t hidden_size = 0;           // the length of an embedding; 0 if it is not known
  Pooling pooling = Pooling::kLast;  // how embeddings are made
  // Defaults for parameters that a request does not set, as in vLLM: temperature, top_k, top_p,
  // min_p, repetition_penalty and max_new_tokens. They apply whatever do_sample says. A temperature
  // of 1 and no other restriction is the default if the file has none either.
  io::GenerationConfig generation;
  std::vector<TokenId> stop_tokens;        // as model::stop_tokens_of() returns them
  TemplateTraits plain_chats, tool_chats;  // of the chat templates without and with tools
  // Shared by all requests, so that the texts of dry_sequence_breakers become tokens only once.
  std::shared_ptr<SequenceBreakerCache> breakers = std::make_shared<SequenceBreakerCache>();
  std::string system_fingerprint;  // an empty text becomes null
  int64_t created = 0;             // Unix time in seconds
  int64_t slots = 1;               // answers that are computed together at most
  ModelSizes sizes;
};

// Sets `plain_chats` and `tool_chats` from the tokenizer's chat templates.
void describe_templates(ServedModel& model);

// Returns the error 404 unless `name` is empty or one of the model's names, perhaps with ":latest"
// after it. If any name is allowed, the name must have at most 256 bytes, because every event of a
// stream repeats it.
ApiResult<bool> check_model(const ServedModel& model, std::string_view name);
// Returns the name in the answer to a request for the model `asked`.
std::string name_in_answer(const ServedModel& model, const std::string& asked);

// Return the bodies of GET /v1/models, /v1/models/NAME and /version.
std::string models_json(const ServedModel& model);
ApiResult<std::string> model_json(const ServedModel& model, std::string_view name);
std::string version_json(std::string_view version);

}  // namespace neuronmm::serve
