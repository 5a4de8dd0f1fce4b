#include "serve/requests/chat_request.h"

#include <algorithm>

#include "serve/requests/chat_messages.h"
#include "serve/requests/foreign_fields.h"
#include "serve/requests/reasoning_budget.h"

namespace neuronmm::serve {
namespace {

// Returns the number of likely tokens that are reported for each token (top_logprobs). Returns
// nothing if the client does not set "logprobs" to true.
std::optional<int64_t> read_chat_logprobs(FieldReader& fields) {
  const bool wanted = fields.boolean_or_default("logprobs");
  const auto top = fields.integer("top_logprobs");
  if (top.value_or(0) > 0 && !wanted)
    fields.add_error("top_logprobs", "expected only beside \"logprobs\": true");
  return wanted ? std::optional(top.value_or(0)) : std::nullopt;
}

void expect_text_modality(FieldReader& fields) {
  const Json* modalities = fields.array("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"}))
    fields.add_mismatch("modalities", "[\"text\"]");
}

std::optional<int64_t> read_max_tokens(FieldReader& fields) {
  const auto older = fields.integer("max_tokens");
  const auto newer = fields.integer("max_completion_tokens");
  return newer ? newer : older;
}

Json read_documents(FieldReader& fields) {
  const Json* documents = fields.array("documents");
  if (documents == nullptr) return {};
  if (std::ranges::all_of(*documents, [](const Json& d) { return d.is_object(); }))
    return *documents;
  fields.add_mismatch("documents", "an array of objects");
  return {};
}

std::vector<RequestField> chat_prompt_fields() {
  using Field = RequestField;
  return {
      Field::other("messages", array_schema(component_schema("Message"), 1, {}),
                   "The messages of the conversation so far, the oldest first")
          .required(),
      Field::string("reasoning_effort", kEffortMeaning),
      Field::boolean("add_generation_prompt",
                     "Whether the prompt ends with the beginning of a new message of the "
                     "assistant. By default true, unless continue_final_message is true"),
      Field::boolean("continue_final_message",
                     "Whether the answer continues the last message. It must not be true if "
                     "add_generation_prompt is true")
          .by_default(false),
  };
}

std::vector<RequestField> chat_completion_fields() {
  using Field = RequestField;
  return {
      answer_count_field(),
      token_limit_field("max_tokens", kTokenLimitMeaning),
      token_limit_field("max_completion_tokens",
                        "The newer name of max_tokens. It has precedence if both are given"),
      Field::boolean("logprobs",
                     "Whether the response has the log probability of each token of the answer")
          .by_default(false),
      Field::integer(
          "top_logprobs", 0, kMostLogprobs,
          "How many of the likeliest tokens have their log probabilities in the response, too, at "
          "each token of the answer. It needs \"logprobs\": true. By default 0"),
      Field::other("modalities", {{"enum", {Json::array({"text"}), nullptr}}},
                   "Kinds of output; this model writes only text"),
      Field::not_supported("audio", "this model writes text"),
      Field::not_supported("web_search_options", "this server has no network"),
  };
}

}  // namespace

const RequestTable& chat_prompt_table() {
  static const RequestTable table = {{RequestField::string("model", kModelMeaning)},
                                     tool_fields(ToolSpelling::kNested),
                                     template_variable_fields(),
                                     reasoning_budget_fields(),
                                     chat_prompt_fields()};
  return table;
}

const RequestTable& chat_completion_table() {
  static const RequestTable table =
      RequestTable({generation_fields(), tool_fields(ToolSpelling::kNested),
                    template_variable_fields(), reasoning_budget_fields(), chat_prompt_fields(),
                    chat_completion_fields()})
          .with_others(fields_of_other_servers());
  return table;
}

std::vector<RequestField> template_variable_fields() {
  const Json objects = array_schema({{"type", "object"}}, {}, {});
  return {RequestField::other("documents", nullable_schema(objects),
                              "Documents for the chat template. They have no effect if the "
                              "template does not read them"),
          RequestField::other(
              "chat_template_kwargs", {{"type", {"object", "null"}}},
              "Variables for the chat template, by name; which there are depends on the model")};
}

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
  if (tools.choice.kind != ToolChoice::Kind::kNone) conversation.tools = tools.template_tools;
  read_template_variables(fields, conversation);
  set_budget_variables(read_reasoning_budget(fields), conversation);
  read_effort(fields, "reasoning_effort", conversation);
  const auto prompted = fields.boolean("add_generation_prompt");
  const bool continues = fields.boolean_or_default("continue_final_message");
  if (continues) conversation.continue_field = "content";
  if (continues && prompted.value_or(false))
    fields.add_error("continue_final_message",
                     "expected \"add_generation_prompt\": false beside it");
  conversation.add_generation_prompt = prompted.value_or(!continues);
  return conversation;
}

ChatRequest read_chat_request(FieldReader& fields) {
  ChatRequest request;
  request.tools = read_tool_fields(fields, ToolSpelling::kNested);
  request.conversation = read_conversation(fields, request.tools);
  request.reasoning_budget = read_reasoning_budget(fields);
  request.parameters = read_generation_parameters(fields);
  request.parameters.n = fields.integer_or_default("n");
  request.parameters.max_tokens = read_max_tokens(fields);
  request.parameters.logprobs = read_chat_logprobs(fields);
  expect_text_modality(fields);
  if (request.tools.choice.forced() &&
      request.parameters.response_format.kind != ResponseFormat::Kind::kText)
    fields.add_error("tool_choice",
                     "expected no \"response_format\" beside a call that must be made");
  request.parameters.unknown_fields = unknown_fields(fields);
  return request;
}

ApiResult<ChatRequest> parse_chat_request(std::string_view body) {
  return read_body(body, chat_completion_table(), read_chat_request);
}

}  // namespace neuronmm::serve
