#pragma once
// The endpoints that need only the tokenizer and generate no text. POST /tokenize, POST /detokenize
// and GET /tokenizer_info have vLLM's formats, /apply-template has llama.cpp's, and
// /v1/messages/count_tokens has Anthropic's. GenerationService calls these functions.

#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/served_model.h"
#include "serve/requests/api_error.h"
#include "serve/requests/request_table.h"

namespace neuronmm::serve {

// Return the fields of /tokenize and /detokenize. A chat has those of chat_prompt_table(), too.
const RequestTable& tokenize_table();
const RequestTable& detokenize_table();

// The functions below write the names of the unknown fields of the body to `unknown`, if it is not
// nullptr.

// Reads {"prompt": text}, or {"messages": [...]} with everything that chat templates take;
// add_special_tokens and return_token_strs are optional. Returns {"count", "max_model_len",
// "tokens", "token_strs"}. llama.cpp's form {"content": text} with add_special and with_pieces is
// accepted, too.
ApiResult<std::string> tokenize_response(const ServedModel& model, std::string_view body,
                                         std::vector<std::string>* unknown = nullptr);
// Reads {"tokens": [id, ...]}. Returns {"prompt": text, "content": text}.
ApiResult<std::string> detokenize_response(const ServedModel& model, std::string_view body,
                                           std::vector<std::string>* unknown = nullptr);
// Reads a chat as for /v1/chat/completions. Returns {"prompt": text}.
ApiResult<std::string> apply_template_response(const ServedModel& model, std::string_view body,
                                               std::vector<std::string>* unknown = nullptr);
// Reads a chat as for /v1/messages. Returns {"input_tokens": count}.
ApiResult<std::string> count_tokens_response(const ServedModel& model, std::string_view body,
                                             std::vector<std::string>* unknown = nullptr);
// Returns the texts of the special tokens by their names, chat_template, tokenizer_class and
// model_max_length.
std::string tokenizer_info_json(const ServedModel& model);

}  // namespace neuronmm::serve
