#include "serve/protocol/chat_request.h"

#include <algorithm>

#include "serve/protocol/chat_messages.h"

namespace neuronmm::serve {
namespace {

// "logprobs": true, and "top_logprobs" of them.
std::optional<int64_t> read_chat_logprobs(FieldReader& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMostLogprobs);
  if (top.value_or(0) > 0 && !wanted)
    fields.fail("top_logprobs", "expected only beside \"logprobs\": true");
  return wanted ? std::optional(top.value_or(0)) : std::nullopt;
}

void refuse_other_media(FieldReader& fields) {
  const Json* modalities = fields.array("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"}))
    fields.wrong("modalities", "[\"text\"]");
  fields.refuse("audio", "this model writes text");
  fields.refuse("chat_template", "the template is the model's own");
  fields.refuse("web_search_options", "this server has no network");
  fields.ignore({"prediction", "include_reasoning", "return_prompt_text"});
}

std::optional<int64_t> read_max_tokens(FieldReader& fields) {
  const auto older = read_token_limit(fields, "max_tokens");
  const auto newer = read_token_limit(fields, "max_completion_tokens");
  return newer ? newer : older;
}

Json read_documents(FieldReader& fields) {
  const Json* documents = fields.array("documents");
  if (documents == nullptr) return {};
  if (std::ranges::all_of(*documents, [](const Json& d) { return d.is_object(); }))
    return *documents;
  fields.wrong("documents", "an array of objects");
  return {};
}

}  // namespace

void read_template_variables(FieldReader& fields, text::Conversation& conversation) {
  conversation.documents = read_documents(fields);
  if (const Json* variables = fields.object("chat_template_kwargs"))
    conversation.template_kwargs = *variables;
}

void read_effort(FieldReader& fields, const char* key, text::Conversation& conversation) {
  const auto effort = fields.string(key);
  if (!effort) return;
  Json& variables = conversation.template_kwargs;
  if (!variables.contains("reasoning_effort")) variables["reasoning_effort"] = *effort;
  if (!variables.contains("enable_thinking")) variables["enable_thinking"] = *effort != "none";
}

text::Conversation read_conversation(FieldReader& fields, const ToolFields& tools) {
  text::Conversation conversation;
  conversation.messages = read_messages(fields);
  if (tools.choice.kind != ToolChoice::Kind::kNone) conversation.tools = tools.shown;
  read_template_variables(fields, conversation);
  read_effort(fields, "reasoning_effort", conversation);
  const auto prompted = fields.boolean("add_generation_prompt");
  const bool continues = fields.boolean("continue_final_message").value_or(false);
  if (continues) conversation.continue_field = "content";
  if (continues && prompted.value_or(false))
    fields.fail("continue_final_message", "expected \"add_generation_prompt\": false beside it");
  conversation.add_generation_prompt = prompted.value_or(!continues);
  return conversation;
}

ChatRequest read_chat_request(FieldReader& fields) {
  ChatRequest request;
  request.tools = read_tool_fields(fields, ToolSpelling::kNested);
  request.conversation = read_conversation(fields, request.tools);
  request.parameters = read_generation_parameters(fields);
  request.parameters.max_tokens = read_max_tokens(fields);
  request.parameters.logprobs = read_chat_logprobs(fields);
  refuse_other_media(fields);
  if (request.tools.choice.forced() &&
      request.parameters.response_format.kind != ResponseFormat::Kind::kText)
    fields.fail("tool_choice", "expected no \"response_format\" beside a call that must be made");
  request.parameters.unknown_fields = unknown_fields(fields);
  return request;
}

ApiResult<ChatRequest> parse_chat_request(std::string_view body) {
  return read_body(body, read_chat_request);
}

}  // namespace neuronmm::serve
