#pragma once
// Reads the body of POST /v1/chat/completions. The other chat APIs translate their bodies into the
// same ChatRequest (responses_api_request.h, anthropic_request.h) and share the functions below.
// prepared_generation.h uses the result. Errors are recorded in the reader's RequestProblem, and
// the client is told the first one.

#include <string_view>

#include "serve/protocol/chat_tools.h"
#include "serve/protocol/generation_parameters.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// A request for the next message of a conversation, whichever API it came from.
struct ChatRequest {
  GenerationParameters parameters;
  text::Conversation conversation;  // contains the tools, unless tool_choice is "none"
  ToolFields tools;
};

// Return the fields of the whole body, and of the part that the prompt depends on.
const RequestTable& chat_completion_table();
const RequestTable& chat_prompt_table();
// Returns the fields that read_template_variables reads.
std::vector<RequestField> template_variable_fields();

// Parses a body. An error names the first field that is wrong.
ApiResult<ChatRequest> parse_chat_request(std::string_view body);
ChatRequest read_chat_request(FieldReader& fields);

// Reads what the chat template gets: messages, documents, add_generation_prompt,
// continue_final_message, chat_template_kwargs and reasoning_effort. `tools` have been read before.
text::Conversation read_conversation(FieldReader& fields, const ToolFields& tools);
// Reads the variables of the template: documents and chat_template_kwargs.
void read_template_variables(FieldReader& fields, text::Conversation& conversation);
// Reads how much the model has to think. As in vLLM, the value becomes a variable of the template,
// and any value except "none" turns thinking on. Variables that the client has set are kept.
void read_effort(FieldReader& fields, const char* key, text::Conversation& conversation);

}  // namespace neuronmm::serve
