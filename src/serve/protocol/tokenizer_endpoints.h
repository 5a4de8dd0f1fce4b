#pragma once
// Text, tokens and prompts without an answer: POST /tokenize and /detokenize and GET
// /tokenizer_info as vLLM has them, /apply-template as llama.cpp has it, and
// /v1/messages/count_tokens as Anthropic has it.

#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/api_error.h"
#include "serve/protocol/served_model.h"

namespace neuronmm::serve {

// {"prompt": text} or {"messages": [...]} with what chat templates take; add_special_tokens and
// return_token_strs. Gives {"count", "max_model_len", "tokens", "token_strs"}.
ApiResult<std::string> tokenize_response(const ServedModel& model, std::string_view body);
// {"tokens": [id, ...]}; gives {"prompt": text}.
ApiResult<std::string> detokenize_response(const ServedModel& model, std::string_view body);
// A chat as for /v1/chat/completions; gives {"prompt": text}.
ApiResult<std::string> apply_template_response(const ServedModel& model, std::string_view body);
// A chat as for /v1/messages; gives {"input_tokens": count}.
ApiResult<std::string> count_tokens_response(const ServedModel& model, std::string_view body);
// The special tokens' texts by their names, chat_template, tokenizer_class and model_max_length.
std::string tokenizer_info_json(const ServedModel& model);

}  // namespace neuronmm::serve
