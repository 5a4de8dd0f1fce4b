#include "serve/requests/anthropic_request.h"

#include <utility>

#include "serve/requests/anthropic_tools.h"
#include "serve/requests/foreign_fields.h"
#include "serve/requests/reasoning_budget.h"

namespace neuronmm::serve {
namespace {

// Reads {"type": "enabled", "budget_tokens": ...} and sets the template variable enable_thinking. A
// value that the client set in chat_template_kwargs stays. Returns the budget.
std::optional<int64_t> read_thinking(FieldReader& fields, text::Conversation& conversation) {
  auto reader = fields.inner("thinking");
  if (!reader) return std::nullopt;
  const auto budget = reader->integer("budget_tokens");
  const std::string type = reader->required_string("type");
  if (type != "enabled" && type != "disabled" && type != "adaptive" && type != "between_tools")
    reader->add_mismatch("type", "\"enabled\", \"adaptive\", \"between_tools\" or \"disabled\"");
  Json& variables = conversation.template_kwargs;
  if (!variables.contains("enable_thinking")) variables["enable_thinking"] = type != "disabled";
  return type == "disabled" ? std::nullopt : budget;
}

// Reads {"effort": ..., "format": ...} and returns the format. An effort sets only the template
// variable reasoning_effort. Only "thinking" turns thoughts on or off.
ResponseFormat read_output_config(FieldReader& fields, text::Conversation& conversation) {
  auto config = fields.inner("output_config");
  if (!config) return {};
  const auto effort = config->string("effort");
  Json& variables = conversation.template_kwargs;
  if (effort && !variables.contains("reasoning_effort")) variables["reasoning_effort"] = *effort;
  return read_openai_format(*config, "format");
}

void read_prompt(FieldReader& fields, ChatRequest& request) {
  AnthropicConversation parsed = read_anthropic_messages(fields);
  request.tools = read_anthropic_tools(fields, parsed);
  text::Conversation& conversation = request.conversation;
  conversation.messages = std::move(parsed.messages);
  if (parsed.continues) conversation.continue_field = "content";
  conversation.add_generation_prompt = !parsed.continues;
  if (request.tools.choice.kind != ToolChoice::Kind::kNone && !request.tools.tools.empty())
    conversation.tools = request.tools.template_tools;
  read_template_variables(fields, conversation);
  const auto budget = read_thinking(fields, conversation);
  request.reasoning_budget = read_reasoning_budget(fields, budget);
  set_budget_variables(request.reasoning_budget, conversation);
}

std::vector<RequestField> prompt_fields() {
  using Field = RequestField;
  const Json text_block = component_schema("TextBlock"), text = {{"type", {"string", "null"}}};
  const Json kinds = {{"enum", {"enabled", "adaptive", "between_tools", "disabled"}}};
  return {
      Field::other("system", {{"anyOf", {text, array_schema(text_block, {}, {})}}},
                   "The system message, a text or blocks of text"),
      Field::other("messages", array_schema(component_schema("BlockMessage"), 1, {}),
                   "The messages of the conversation so far, the oldest first")
          .required(),
      Field::other("tools",
                   nullable_schema(array_schema(component_schema("BlockTool"), {}, kMostTools)),
                   "Functions that the model may call. By default there are none"),
      Field::other("tool_choice", component_schema("BlockToolChoice"),
                   "Whether the model may, must or must not call a tool, or the tool that it must "
                   "call. By default auto if there are tools, else none"),
      Field::object("thinking",
                    {Field::other("type", kinds,
                                  "\"disabled\" turns thoughts off, any other value turns them on")
                         .required(),
                     Field::integer("budget_tokens", 0, INT64_MAX,
                                    "Largest number of tokens of the thoughts, which are then "
                                    "ended. By default there is no limit")},
                    "Whether the model thinks before it answers. By default the chat template "
                    "decides. It has no effect on models that cannot think"),
      Field::object("output_config",
                    {Field::string("effort",
                                   "How much the model should think, for example \"low\". The chat "
                                   "template gets the text as the variable reasoning_effort"),
                     Field::other("format", component_schema("ResponseFormat"),
                                  "Format that the answer must have. By default any text")},
                    "Settings of the answer"),
  };
}

std::vector<RequestField> message_fields() {
  using Field = RequestField;
  return {
      single_answer_field(),
      token_limit_field("max_tokens", kTokenLimitMeaning),
      Field::other("output_format", component_schema("ResponseFormat"),
                   "The older name of output_config.format"),
      Field::not_supported("mcp_servers", "this server runs no tools"),
      Field::not_supported("container", "this server runs no tools"),
  };
}

}  // namespace

const RequestTable& anthropic_prompt_table() {
  static const RequestTable table = {{RequestField::string("model", kModelMeaning)},
                                     prompt_fields(),
                                     template_variable_fields(),
                                     reasoning_budget_fields()};
  return table;
}

const RequestTable& anthropic_table() {
  static const RequestTable table =
      RequestTable(
          {generation_fields(), prompt_fields(), template_variable_fields(),
           reasoning_budget_fields(), message_fields(),
           RequestField::ignored({"betas", "cache_control", "context_management", "diagnostics",
                                  "inference_geo", "speed", "user_profile_id"})})
          .with_others(fields_of_other_servers());
  return table;
}

ChatRequest read_anthropic_prompt(FieldReader& fields) {
  ChatRequest request;
  read_prompt(fields, request);
  request.parameters.model = fields.string("model").value_or("");
  (void)read_output_config(fields, request.conversation);
  request.parameters.unknown_fields = unknown_fields(fields);
  return request;
}

ChatRequest read_anthropic_request(FieldReader& fields) {
  ChatRequest request;
  read_prompt(fields, request);
  request.parameters = read_generation_parameters(fields);
  GenerationParameters& parameters = request.parameters;
  expect_single_answer(fields, "a message is one answer");
  parameters.max_tokens = fields.integer("max_tokens");
  ResponseFormat& format = parameters.response_format;
  add_format(read_output_config(fields, request.conversation), format, fields.problem());
  add_format(read_openai_format(fields, "output_format"), format, fields.problem());
  if (request.tools.choice.forced() && format.kind != ResponseFormat::Kind::kText)
    fields.add_error("tool_choice", "expected no output format beside a call that must be made");
  parameters.unknown_fields = unknown_fields(fields);
  return request;
}

ApiResult<ChatRequest> parse_anthropic_request(std::string_view body) {
  return read_body(body, anthropic_table(), read_anthropic_request);
}

}  // namespace neuronmm::serve
