#include "serve/requests/responses_api_request.h"

#include <algorithm>

#include "serve/requests/foreign_fields.h"
#include "serve/requests/reasoning_budget.h"
#include "serve/requests/responses_api_input.h"

namespace neuronmm::serve {
namespace {

// Reads the output format from the field text, {"format": ..., "verbosity": ...}.
void read_text(FieldReader& fields, GenerationParameters& parameters) {
  auto text = fields.inner("text");
  if (!text) return;
  add_format(read_openai_format(*text, "format"), parameters.response_format, fields.problem());
}

// Reads {"effort": ..., "max_tokens": ...} and returns the budget of the thoughts.
std::optional<int64_t> read_reasoning(FieldReader& fields, text::Conversation& conversation) {
  auto reasoning = fields.inner("reasoning");
  const auto own = reasoning ? reasoning->integer("max_tokens") : std::nullopt;
  const auto budget = read_reasoning_budget(fields, own);
  set_budget_variables(budget, conversation);
  if (reasoning) read_effort(*reasoning, "effort", conversation);
  return budget;
}

// Returns the number of likely tokens that are reported for each token. Returns 0 if "include" asks
// for log probabilities without "top_logprobs", and nothing if the client wants none.
std::optional<int64_t> read_logprobs(FieldReader& fields) {
  const auto top = fields.integer("top_logprobs");
  const Json* include = fields.array("include");
  const bool included =
      include != nullptr && std::ranges::count(*include, Json("message.output_text.logprobs")) > 0;
  if (top.value_or(0) > 0) return top;
  return included ? std::optional<int64_t>(0) : std::nullopt;
}

std::vector<RequestField> responses_api_fields() {
  using Field = RequestField;
  const Json text = {{"type", "string"}};
  std::vector<Field> fields = {
      Field::other(
          "input", {{"anyOf", {text, array_schema(component_schema("InputItem"), 1, {})}}},
          "A message of the user, or the items of the conversation so far, the oldest first")
          .required(),
      Field::string("instructions", "The system message. By default there is none"),
      single_answer_field(),
      token_limit_field("max_output_tokens", kTokenLimitMeaning),
      Field::integer("top_logprobs", 0, kMostLogprobs,
                     "If above 0, the response has the log probability of each token of the answer "
                     "and of this many of the likeliest tokens at its place. By default 0"),
      Field::other("include", {{"type", {"array", "null"}}},
                   "Further parts of the response. \"message.output_text.logprobs\" adds the log "
                   "probability of each token of the answer; other values have no effect"),
      Field::object("text",
                    {Field::other("format", component_schema("ResponseFormat"),
                                  "Format that the answer must have. By default any text")},
                    "Settings of the text of the answer"),
      Field::object("reasoning",
                    {Field::string("effort", kEffortMeaning),
                     Field::integer("max_tokens", kNoReasoningLimit, INT64_MAX,
                                    "Another name of reasoning_budget")},
                    "Settings of the model's thoughts"),
      Field::other("background", {{"enum", {false, nullptr}}},
                   "Whether the answer is computed after the response; this server cannot do that"),
      Field::not_supported("max_tokens", "expected max_output_tokens instead"),
      Field::not_supported("prompt", "this server keeps no prompts: send instructions and input"),
  };
  for (const char* name : {"previous_response_id", "conversation"})
    fields.push_back(
        Field::not_supported(name, "this server keeps no responses: send their items as input"));
  return fields;
}

// Returns the request's fields that the response repeats. A field that the request lacks has the
// value that OpenAI's servers report for it.
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

const RequestTable& responses_api_table() {
  static const RequestTable table =
      RequestTable({generation_fields(), tool_fields(ToolSpelling::kFlat),
                    template_variable_fields(), reasoning_budget_fields(), responses_api_fields(),
                    RequestField::ignored({"max_tool_calls", "truncation"})})
          .with_others(fields_of_other_servers());
  return table;
}

ChatRequest read_responses_api_request(FieldReader& fields) {
  ChatRequest request;
  request.tools = read_tool_fields(fields, ToolSpelling::kFlat);
  request.conversation.messages = read_responses_api_input(fields);
  if (request.tools.choice.kind != ToolChoice::Kind::kNone)
    request.conversation.tools = request.tools.template_tools;
  read_template_variables(fields, request.conversation);
  request.reasoning_budget = read_reasoning(fields, request.conversation);
  request.parameters = read_generation_parameters(fields);
  expect_single_answer(fields, "a response is one answer");
  request.parameters.max_tokens = fields.integer("max_output_tokens");
  request.parameters.logprobs = read_logprobs(fields);
  read_text(fields, request.parameters);
  if (fields.boolean("background").value_or(false))
    fields.add_error("background", "expected false: this server keeps no responses");
  if (request.tools.choice.forced() &&
      request.parameters.response_format.kind != ResponseFormat::Kind::kText)
    fields.add_error("tool_choice", "expected no \"text.format\" beside a call that must be made");
  request.parameters.unknown_fields = unknown_fields(fields, request.tools.ignored);
  return request;
}

ApiResult<ResponsesApiRequest> parse_responses_api_request(std::string_view body) {
  return read_body(body, responses_api_table(), [](FieldReader& fields) {
    return ResponsesApiRequest{read_responses_api_request(fields), echoed_fields(fields)};
  });
}

}  // namespace neuronmm::serve
