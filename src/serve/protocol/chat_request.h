#pragma once
// The body of POST /v1/chat/completions.

#include <string_view>

#include "serve/protocol/chat_tools.h"
#include "serve/protocol/generation_parameters.h"
#include "text/conversation.h"

namespace neuronmm::serve {

struct ChatRequest {
  GenerationParameters parameters;
  text::Conversation conversation;  // with the tools, unless none may be called
  ToolFields tools;
};

// The fields of the body, and those that the prompt alone depends on.
const RequestTable& chat_completion_table();
const RequestTable& chat_prompt_table();
// Those that read_template_variables reads.
std::vector<RequestField> template_variable_fields();

// docs/serving_protocol.md has the fields. Errors name the first one that is wrong.
ApiResult<ChatRequest> parse_chat_request(std::string_view body);
ChatRequest read_chat_request(FieldReader& fields);  // what is wrong is the reader's problem

// What a chat template is given: messages, tools, documents, add_generation_prompt,
// continue_final_message, chat_template_kwargs and reasoning_effort.
text::Conversation read_conversation(FieldReader& fields, const ToolFields& tools);
// Of these the variables of the template: documents and chat_template_kwargs.
void read_template_variables(FieldReader& fields, text::Conversation& conversation);
// How much the model shall think: a variable of the template, as vLLM has it, and one that is not
// "none" asks for thoughts. Variables that the client has set stay.
void read_effort(FieldReader& fields, const char* key, text::Conversation& conversation);

}  // namespace neuronmm::serve
