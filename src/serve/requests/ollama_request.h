#pragma once
// Reads the bodies of POST /api/chat and POST /api/generate, Ollama's protocol
// (docs/reference/ollama_protocol.md). protocol/ollama_generation.cc uses this file, and openapi.cc
// describes the fields of its tables to clients.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/requests/chat_request.h"

namespace neuronmm::serve {

// A request to either path.
struct OllamaRequest {
  ChatRequest chat;  // a prompt of /api/generate is a message of the user
  // The prompt of /api/generate with "raw" or "suffix", which goes to the model as it is.
  std::optional<std::string> raw_prompt;
  std::string suffix;  // the text after the answer, which then fills the place between both
  std::vector<TokenId> context;  // tokens of an earlier answer of /api/generate
  // There is nothing to answer: clients load and unload models with such requests.
  bool empty = false;
  bool unloads = false;       // an empty request with "keep_alive": 0
  bool truncates = true;      // the oldest messages may be dropped if the context is too short
  bool renders_only = false;  // asks for the text of the prompt in place of an answer
};

// Return the tables of the fields of the bodies.
const RequestTable& ollama_chat_table();
const RequestTable& ollama_generate_table();

// Parse a body. An error names the first wrong field.
ApiResult<OllamaRequest> parse_ollama_chat(std::string_view body);
ApiResult<OllamaRequest> parse_ollama_generate(std::string_view body);

inline constexpr const char* kOllamaModelMeaning = "Name of the model, with or without \":latest\"";
// Returns the field "model", which is required.
RequestField ollama_model_field();
// Reads the field "model", or "name" as older clients call it if `name_too` is set. A missing name
// is an error, as in Ollama.
std::string read_ollama_model(FieldReader& fields, bool name_too = false);
// Returns the field "keep_alive", and whether its value is a duration of zero.
RequestField keep_alive_field();
bool read_keep_alive_is_zero(FieldReader& fields);

}  // namespace neuronmm::serve
