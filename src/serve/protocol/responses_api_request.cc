#include "serve/protocol/responses_api_request.h"

#include <algorithm>

#include "serve/protocol/responses_api_input.h"

namespace neuronmm::serve {
namespace {

// {"format": ..., "verbosity": ...}
void read_text(FieldReader& fields, GenerationParameters& answer) {
  const Json* text = fields.object("text");
  if (text == nullptr) return;
  FieldReader reader(*text, "text.", fields.problem());
  ResponseFormat format = read_openai_format(reader, "format");
  if (format.kind == ResponseFormat::Kind::kText) return;
  if (answer.response_format.kind != ResponseFormat::Kind::kText)
    reader.fail("format", fmt::format("expected one shape of the answer, found one in {} too",
                                      answer.response_format.param));
  answer.response_format = std::move(format);
}

void read_reasoning(FieldReader& fields, text::Conversation& conversation) {
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  FieldReader reader(*reasoning, "reasoning.", fields.problem());
  read_effort(reader, "effort", conversation);
}

// "top_logprobs", or the word for them in "include".
std::optional<int64_t> read_logprobs(FieldReader& fields) {
  const auto top = fields.integer("top_logprobs", 0, kMostLogprobs);
  const Json* include = fields.array("include");
  const bool included =
      include != nullptr && std::ranges::count(*include, Json("message.output_text.logprobs")) > 0;
  if (top.value_or(0) > 0) return top;
  return included ? std::optional<int64_t>(0) : std::nullopt;
}

// What would need a server that keeps responses, or more than one answer.
void refuse_kept_responses(FieldReader& fields) {
  for (const char* key : {"previous_response_id", "conversation"})
    fields.refuse(key, "this server keeps no responses: send their items as input");
  fields.refuse("prompt", "this server keeps no prompts: send instructions and input");
  if (fields.boolean("background").value_or(false))
    fields.fail("background", "expected false: this server keeps no responses");
  fields.refuse("max_tokens", "expected max_output_tokens instead");
  fields.refuse("chat_template", "the template is the model's own");
  fields.ignore({"include_reasoning", "max_tool_calls", "truncation"});
}

// As OpenAI tells them where a request does not say.
Json echoed_fields(FieldReader& fields) {
  Json echoed = {{"background", false},
                 {"instructions", nullptr},
                 {"max_output_tokens", nullptr},
                 {"max_tool_calls", nullptr},
                 {"metadata", Json::object()},
                 {"parallel_tool_calls", true},
                 {"previous_response_id", nullptr},
                 {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                 {"service_tier", "default"},
                 {"store", false},
                 {"text", {{"format", {{"type", "text"}}}}},
                 {"tool_choice", "auto"},
                 {"tools", Json::array()},
                 {"top_logprobs", 0},
                 {"truncation", "disabled"},
                 {"user", nullptr}};
  for (const char* key :
       {"instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls",
        "reasoning", "text", "tool_choice", "tools", "top_logprobs", "truncation", "user"}) {
    if (const Json* value = fields.find(key)) echoed[key] = *value;
  }
  return echoed;
}

}  // namespace

ChatRequest read_responses_api_request(FieldReader& fields) {
  ChatRequest request;
  request.tools = read_tool_fields(fields, ToolSpelling::kFlat);
  request.conversation.messages = read_responses_api_input(fields);
  if (request.tools.choice.kind != ToolChoice::Kind::kNone)
    request.conversation.tools = request.tools.shown;
  read_template_variables(fields, request.conversation);
  read_reasoning(fields, request.conversation);
  request.parameters = read_generation_parameters(fields);
  if (request.parameters.n != 1) fields.wrong("n", "1: a response is one answer");
  request.parameters.max_tokens = read_token_limit(fields, "max_output_tokens");
  request.parameters.logprobs = read_logprobs(fields);
  read_text(fields, request.parameters);
  refuse_kept_responses(fields);
  if (request.tools.choice.forced() &&
      request.parameters.response_format.kind != ResponseFormat::Kind::kText)
    fields.fail("tool_choice", "expected no \"text.format\" beside a call that must be made");
  request.parameters.unknown_fields = unknown_fields(fields, request.tools.left_out);
  return request;
}

ApiResult<ResponsesApiRequest> parse_responses_api_request(std::string_view body) {
  return read_body(body, [](FieldReader& fields) {
    return ResponsesApiRequest{read_responses_api_request(fields), echoed_fields(fields)};
  });
}

}  // namespace neuronmm::serve
