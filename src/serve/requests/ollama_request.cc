#include "serve/requests/ollama_request.h"

#include <algorithm>
#include <utility>

#include "serve/requests/ollama_messages.h"
#include "serve/requests/ollama_options.h"

namespace neuronmm::serve {
namespace {

// Reads true, false or a level of thinking into the variables of the chat template.
void read_think(FieldReader& fields, text::Conversation& conversation) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  const bool is_level =
      *think == "high" || *think == "medium" || *think == "low" || *think == "max";
  if (!think->is_boolean() && !is_level)
    fields.add_mismatch("think", "true, false, \"low\", \"medium\", \"high\" or \"max\"");
  conversation.template_kwargs["enable_thinking"] = *think != false;
  if (is_level) conversation.template_kwargs["reasoning_effort"] = *think;
}

// Reads "json" or a schema. An empty text is no format.
ResponseFormat read_ollama_format(FieldReader& fields) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return {};
  if (*format == "json")
    return {.kind = ResponseFormat::Kind::kJsonObject, .param = fields.path("format")};
  if (format->is_object())
    return {.kind = ResponseFormat::Kind::kJsonSchema,
            .schema = *format,
            .param = fields.path("format")};
  fields.add_mismatch("format", "\"json\" or a JSON schema");
  return {};
}

void read_parameters(FieldReader& fields, OllamaRequest& request) {
  GenerationParameters& parameters = request.chat.parameters;
  parameters.model = read_ollama_model(fields);
  parameters.stream = fields.boolean_or_default("stream");
  parameters.response_format = read_ollama_format(fields);
  read_ollama_options(fields, parameters);
  const int64_t top = fields.integer_or_default("top_logprobs");
  if (fields.boolean_or_default("logprobs")) parameters.logprobs = top;
  read_think(fields, request.chat.conversation);
  request.unloads = read_keep_alive_is_zero(fields);
  request.truncates = fields.boolean_or_default("truncate");
  (void)fields.boolean("shift");
  request.renders_only = fields.boolean_or_default("_debug_render_only");
  parameters.unknown_fields = unknown_fields(fields);
}

// Reads the prompt of /api/generate, which is a message of the user unless it is raw.
void read_ollama_prompt(FieldReader& fields, OllamaRequest& request) {
  const std::string prompt = fields.string("prompt").value_or("");
  const std::string system = fields.string("system").value_or("");
  request.context = fields.token_ids("context");
  request.empty = prompt.empty();
  request.suffix = fields.string("suffix").value_or("");
  if (!request.suffix.empty()) {
    if (!system.empty() || !request.context.empty())
      fields.add_error("suffix", "expected no system and no context beside it");
    request.raw_prompt = prompt;
    request.empty = false;
    return;
  }
  if (fields.boolean_or_default("raw")) {
    if (!system.empty() || !request.context.empty())
      fields.add_error("raw", "expected no system and no context beside it");
    request.raw_prompt = prompt;
    return;
  }
  text::Conversation& conversation = request.chat.conversation;
  if (!system.empty()) conversation.add_message("system", system);
  conversation.add_message("user", prompt);
}

std::vector<RequestField> common_ollama_fields() {
  using Field = RequestField;
  const Json format = {
      {"anyOf", {{{"enum", {"json", ""}}}, {{"type", "object"}}, {{"type", "null"}}}}};
  return {
      ollama_model_field(),
      Field::boolean("stream", "Whether the response is a stream of lines of JSON")
          .by_default(true),
      Field::other("format", format,
                   "Format that the answer must have: \"json\" for any object, or a JSON schema. "
                   "By default any text"),
      ollama_options_field(),
      Field::other("think", {{"enum", {true, false, "low", "medium", "high", "max", nullptr}}},
                   "Whether the model thinks before it answers, or how much. By default the chat "
                   "template decides"),
      Field::boolean("logprobs",
                     "Whether the response has the log probability of each token of the answer")
          .by_default(false),
      Field::integer("top_logprobs", 0, kMostLogprobs,
                     "How many of the likeliest tokens have their log probabilities in the "
                     "response, too. It has an effect only beside \"logprobs\": true")
          .by_default(0),
      Field::boolean("truncate",
                     "Whether the oldest messages may be dropped if the conversation is longer "
                     "than the context")
          .by_default(true),
      Field::boolean("shift", "Without effect: an answer ends at the end of the context"),
      Field::boolean("_debug_render_only",
                     "Whether the response has the text of the prompt in place of an answer")
          .by_default(false),
      keep_alive_field(),
  };
}

std::vector<RequestField> generate_fields() {
  using Field = RequestField;
  return {
      Field::string("prompt", "Text to answer. An empty text loads the model"),
      Field::string("system", "The system message"),
      Field::boolean("raw", "Whether the prompt goes to the model without the chat template")
          .by_default(false),
      Field::token_ids("context",
                       "The field context of an earlier response, which this prompt "
                       "continues"),
      Field::string("suffix",
                    "The text that follows the answer, which fills the place between prompt and "
                    "suffix. Only models with tokens for that can do so"),
      Field::not_supported("template", "the template is the model's own"),
      Field::not_supported("images", "this model reads text"),
  };
}

OllamaRequest read_ollama_chat(FieldReader& fields) {
  OllamaRequest request;
  text::Conversation& conversation = request.chat.conversation;
  conversation.messages = read_ollama_messages(fields);
  request.empty = conversation.messages.empty();
  request.chat.tools = read_tool_fields(fields, ToolSpelling::kNested);
  if (request.chat.tools.choice.kind != ToolChoice::Kind::kNone)
    conversation.tools = request.chat.tools.template_tools;
  // An answer that comes last is continued.
  const Json last = request.empty ? Json() : conversation.messages.back();
  if (last.is_object() && last.value("role", "") == "assistant" &&
      last.value("content", "") != "" && !last.contains("tool_calls")) {
    conversation.continue_field = "content";
    conversation.add_generation_prompt = false;
  }
  read_parameters(fields, request);
  return request;
}

OllamaRequest read_ollama_generate(FieldReader& fields) {
  OllamaRequest request;
  read_ollama_prompt(fields, request);
  read_parameters(fields, request);
  return request;
}

}  // namespace

const RequestTable& ollama_chat_table() {
  static const RequestTable table = {
      common_ollama_fields(),
      tool_fields(ToolSpelling::kNested),
      {RequestField::other("messages",
                           nullable_schema(array_schema(component_schema("OllamaMessage"), {}, {})),
                           "The messages of the conversation so far, the oldest first. An empty "
                           "list loads the model")}};
  return table;
}

const RequestTable& ollama_generate_table() {
  static const RequestTable table = {common_ollama_fields(), generate_fields()};
  return table;
}

ApiResult<OllamaRequest> parse_ollama_chat(std::string_view body) {
  return read_body(body, ollama_chat_table(), read_ollama_chat);
}

ApiResult<OllamaRequest> parse_ollama_generate(std::string_view body) {
  return read_body(body, ollama_generate_table(), read_ollama_generate);
}

RequestField ollama_model_field() {
  return RequestField::string("model", kOllamaModelMeaning).required();
}

std::string read_ollama_model(FieldReader& fields, bool name_too) {
  std::string model = fields.string("model").value_or("");
  const auto older = name_too ? fields.string("name") : std::nullopt;
  if (model.empty() && older) model = *older;
  if (model.empty()) fields.add_error("model", "model is required");
  return model;
}

RequestField keep_alive_field() {
  return RequestField::other("keep_alive", {{"type", {"string", "number", "null"}}},
                             "Without effect: the model stays loaded. Beside an empty prompt, 0 "
                             "gets the response to an unloaded model");
}

bool read_keep_alive_is_zero(FieldReader& fields) {
  const Json* value = fields.find("keep_alive");
  if (value == nullptr) return false;
  if (value->is_number()) return *value == 0;
  if (!value->is_string()) {
    fields.add_mismatch("keep_alive", "a duration such as \"5m\", or seconds");
    return false;
  }
  const auto& text = value->get_ref<const std::string&>();
  return text.find('0') != std::string::npos &&
         text.find_first_of("123456789") == std::string::npos;
}

}  // namespace neuronmm::serve
