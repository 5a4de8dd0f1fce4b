#pragma once
// Reads the body of POST /v1/chat/completions. The readers of the other two chat APIs
// (anthropic_request.h, responses_api_request.h) share ChatRequest and some functions of this file.

#include <string_view>

#include "serve/requests/chat_tools.h"
#include "serve/requests/generation_parameters.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// A request for the next message of a conversation, whichever API it came from.
struct ChatRequest {
  GenerationParameters parameters;
  text::Conversation conversation;  // includes the tools, unless the model may call none
  ToolFields tools;
  // The largest number of tokens of the thoughts; without a value there is no limit.
  std::optional<int64_t> reasoning_budget = {};
};

// Return the table of all fields of the body, and the table of those that the prompt depends on.
// /tokenize and /apply-template read only the latter.
const RequestTable& chat_completion_table();
const RequestTable& chat_prompt_table();
// Returns the fields that read_template_variables() reads.
std::vector<RequestField> template_variable_fields();

// Parses a body. docs/reference/serving_protocol.md lists the fields. An error names the first
// wrong field.
ApiResult<ChatRequest> parse_chat_request(std::string_view body);
// Reads the same fields. Errors are recorded in fields.problem(), as in the functions below.
ChatRequest read_chat_request(FieldReader& fields);

// Reads the input of the chat template. The fields are messages, documents, add_generation_prompt,
// continue_final_message, chat_template_kwargs and reasoning_effort; the tools come from `tools`.
text::Conversation read_conversation(FieldReader& fields, const ToolFields& tools);
// Reads the fields documents and chat_template_kwargs into `conversation`.
void read_template_variables(FieldReader& fields, text::Conversation& conversation);
// Reads from the field `key` how much the model should think. As in vLLM, the value becomes the
// template variable reasoning_effort, and enable_thinking is set to whether it differs from "none".
// Variables that the client has set stay.
void read_effort(FieldReader& fields, const char* key, text::Conversation& conversation);

}  // namespace neuronmm::serve
