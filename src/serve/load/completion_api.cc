#include "serve/load/completion_api.h"

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "text/utf8_stream.h"

namespace neuronmm::load {
namespace {

using Json = nlohmann::json;

// Of an object's member, or nullptr; anything else than objects has none.
const Json* member(const Json* value, const char* name) {
  if (value == nullptr || !value->is_object()) return nullptr;
  const auto found = value->find(name);
  return found == value->end() || found->is_null() ? nullptr : &*found;
}

const Json* first(const Json* list) {
  return list != nullptr && list->is_array() && !list->empty() ? &list->front() : nullptr;
}

std::string text_of(const Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<int64_t> count_of(const Json* value) {
  if (value == nullptr || !value->is_number_integer() || *value < 0) return std::nullopt;
  return value->get<int64_t>();
}

std::string one_line(std::string text) {
  constexpr size_t kMostBytes = 200;
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  if (text.size() <= kMostBytes) return text;
  text::Utf8Stream characters;
  return characters.push(std::string_view(text).substr(0, kMostBytes)) + "...";
}

std::string error_text(const Json& body) {
  const Json* const error = member(&body, "error");
  if (const Json* const message = member(error, "message")) return text_of(message);
  if (error != nullptr && error->is_string()) return text_of(error);
  for (const char* const name : {"message", "detail"}) {  // other servers'
    if (const Json* const message = member(&body, name)) return text_of(message);
  }
  return io::describe_json(body);
}

// What of the answer this choice brings, and whether it is a token's: one with a text, or one that
// stands for a token whose text is held back. A role, or the reason of the end, alone is none.
void read_choice(const Json& choice, AnswerChunk& chunk) {
  chunk.has_choice = true;
  const bool ends = member(&choice, "finish_reason") != nullptr;
  bool has_field = false;
  const auto take = [&](const Json* text) {
    has_field = has_field || (text != nullptr && text->is_string());
    chunk.text += text_of(text);
  };
  take(member(&choice, "text"));
  const Json* const delta = member(&choice, "delta");
  for (const char* const name : {"reasoning_content", "reasoning", "content"})
    take(member(delta, name));
  const Json* const function = member(first(member(delta, "tool_calls")), "function");
  take(member(function, "name"));
  take(member(function, "arguments"));
  const bool only_begins = member(delta, "role") != nullptr;
  const bool held_back = has_field && !ends && !only_begins;
  if (!chunk.text.empty() || held_back) chunk.kind = AnswerChunk::Kind::kToken;
}

}  // namespace

std::string_view endpoint_path(Endpoint endpoint) {
  return endpoint == Endpoint::kChat ? "/v1/chat/completions" : "/v1/completions";
}

std::string request_body(const RequestSettings& settings, const LoadPrompt& prompt) {
  Json body = {{"model", settings.model},
               {"max_tokens", prompt.max_tokens},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (settings.ignore_eos) body["ignore_eos"] = true;
  if (settings.temperature) body["temperature"] = *settings.temperature;
  if (settings.seed) body["seed"] = *settings.seed;
  if (settings.endpoint == Endpoint::kCompletions)
    body["prompt"] = prompt.text;
  else if (prompt.messages.is_null())
    body["messages"] = Json::array({{{"role", "user"}, {"content", prompt.text}}});
  else
    body["messages"] = prompt.messages;
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

AnswerChunk read_chunk(std::string_view data) {
  using Kind = AnswerChunk::Kind;
  if (data == "[DONE]") return {.kind = Kind::kDone};
  const auto parsed = io::parse_json_object(data, "event");
  if (!parsed.ok()) return {.kind = Kind::kGarbage, .text = one_line(parsed.error().message)};
  const Json& body = *parsed;
  if (member(&body, "error") != nullptr)
    return {.kind = Kind::kError, .text = one_line(error_text(body))};
  AnswerChunk chunk;
  const Json* const choices = member(&body, "choices");
  const Json* const usage = member(&body, "usage");
  if (choices == nullptr && usage == nullptr)
    return {.kind = Kind::kGarbage, .text = "event: expected \"choices\" or \"usage\""};
  chunk.prompt_tokens = count_of(member(usage, "prompt_tokens"));
  chunk.completion_tokens = count_of(member(usage, "completion_tokens"));
  if (const Json* const choice = first(choices)) read_choice(*choice, chunk);
  return chunk;
}

std::string error_message(std::string_view body) {
  const auto parsed = io::parse_json_object(body, "body");
  return one_line(parsed.ok() ? error_text(*parsed) : std::string(body));
}

Result<std::string> first_model(std::string_view body) {
  NMM_ASSIGN(const Json parsed, io::parse_json_object(body, "/v1/models"));
  const std::string name = text_of(member(first(member(&parsed, "data")), "id"));
  if (name.empty()) return fail("/v1/models: expected a list \"data\" of models with an \"id\"");
  return name;
}

}  // namespace neuronmm::load
