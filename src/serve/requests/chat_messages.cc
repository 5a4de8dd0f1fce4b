#include "serve/requests/chat_messages.h"

#include <algorithm>
#include <cctype>

#include "serve/requests/custom_tools.h"

namespace neuronmm::serve {
namespace {

// Returns whether `role` is a possible name of a role. The template decides which roles exist (for
// example "ipython" or "function"). The letters are restricted so that a role cannot contain a
// special token.
bool is_role(std::string_view role) {
  constexpr size_t kLongest = 64;
  return !role.empty() && role.size() <= kLongest && std::ranges::all_of(role, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

// Reads one part: a text, {"type": "text", "text": ...}, or a refusal or a thought of an earlier
// answer.
std::optional<std::string> read_part(const Json& part, const std::string& path,
                                     RequestProblem& problem) {
  if (part.is_string()) return part.get<std::string>();
  if (!expect_object(part, path, "\"type\" or a text", problem)) return std::nullopt;
  FieldReader reader(part, path + ".", problem);
  const std::string type = reader.required_string("type");
  if (type == "text" || type == "input_text" || type == "output_text")
    return reader.required_string("text");
  if (type == "refusal" || type == "thinking") return reader.required_string(type);
  reader.add_mismatch("type", "\"text\", the only thing that this model reads");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> read_content(FieldReader& message, const char* key) {
  const Json* content = message.find(key);
  if (content == nullptr) return std::nullopt;
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    message.add_mismatch(key, "a string or an array of parts");
    return std::nullopt;
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const auto part =
        read_part((*content)[i], fmt::format("{}[{}]", message.path(key), i), message.problem());
    if (!part) return std::nullopt;
    text += (i > 0 ? "\n" : "") + *part;
  }
  return text;
}

Json read_arguments(FieldReader& function) {
  const Json* arguments = function.find("arguments");
  if (arguments == nullptr) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) {
    function.add_mismatch("arguments", "JSON of an object in a string");
    return {};
  }
  const auto& text = arguments->get_ref<const std::string&>();
  if (text.empty() || text == "null") return Json::object();
  auto parsed = parse_json_text(text, function.path("arguments"));
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : *arguments;
}

namespace {

// Reads {"type": "custom", "custom": {"name": ..., "input": ...}} into `read`, as a call of the
// function that stands for the tool.
Json read_custom_call(FieldReader& call, Json read) {
  const Json* custom = call.object("custom");
  if (custom == nullptr) {
    call.add_mismatch("custom", "an object with \"name\" and \"input\"");
    return read;
  }
  FieldReader parts(*custom, call.path("custom."), call.problem());
  read["type"] = "function";
  read["function"] = {{"name", parts.required_string("name")}};
  read["function"]["arguments"] = custom_arguments(parts.string("input").value_or(""));
  return read;
}

Json read_call(const Json& call, const std::string& path, RequestProblem& problem) {
  if (!call.is_object()) {
    problem.add(invalid_request(
        path, fmt::format("{}: expected an object, found {}", path, describe(call))));
    return {};
  }
  FieldReader reader(call, path + ".", problem);
  Json read = Json::object();
  if (const auto id = reader.string("id")) read["id"] = *id;
  const std::string type = reader.string("type").value_or("function");
  if (type == "custom") return read_custom_call(reader, std::move(read));
  if (type != "function") reader.add_mismatch("type", "\"function\" or \"custom\"");
  const Json* function = reader.object("function");
  if (function == nullptr) {
    reader.add_mismatch("function", "an object with \"name\" and \"arguments\"");
    return read;
  }
  FieldReader parts(*function, reader.path("function."), problem);
  read["type"] = "function";
  read["function"] = {{"name", parts.required_string("name")}};
  read["function"]["arguments"] = read_arguments(parts);
  return read;
}

void read_assistant(FieldReader& reader, Json& message) {
  for (const char* field : {"reasoning_content", "reasoning"}) {
    const auto thought = reader.string(field);
    if (thought) message["reasoning_content"] = *thought;
  }
  const Json* calls = reader.array("tool_calls");
  if (calls != nullptr && !calls->empty()) {
    Json& read = message["tool_calls"] = Json::array();
    for (size_t i = 0; i < calls->size(); ++i) {
      const std::string path = fmt::format("{}[{}]", reader.path("tool_calls"), i);
      read.push_back(read_call((*calls)[i], path, reader.problem()));
    }
  }
  reader.refuse("function_call", "expected tool_calls instead");
  reader.refuse("audio", "this model reads text");
  const auto refusal = reader.string("refusal");
  // Templates read the content without checking that it exists. It is missing if the answer
  // consisted of calls or thoughts.
  if (!message.contains("content")) message["content"] = refusal.value_or("");
}

}  // namespace

Json read_message(const Json& value, const std::string& path, RequestProblem& problem) {
  if (!expect_object(value, path, "\"role\" and \"content\"", problem)) return {};
  FieldReader reader(value, path + ".", problem);
  const std::string role = reader.required_string("role");
  if (!is_role(role))
    reader.add_mismatch("role", "developer, system, user, assistant, tool or the like");
  Json message = {{"role", role}};
  if (const auto content = read_content(reader, "content")) message["content"] = *content;
  if (const auto name = reader.string("name")) message["name"] = *name;
  if (role == "assistant") {
    read_assistant(reader, message);
  } else if (role == "tool") {
    if (const auto id = reader.string("tool_call_id")) message["tool_call_id"] = *id;
    if (!message.contains("content")) message["content"] = "";  // a tool may return nothing
  } else if (!message.contains("content")) {
    reader.add_mismatch("content", "a string or an array of parts");
  }
  return message;
}

Json read_messages(FieldReader& fields) {
  Json messages = Json::array();
  const Json* list = fields.array("messages");
  if (list == nullptr || list->empty()) {
    fields.add_mismatch("messages", "an array of at least one message");
    return messages;
  }
  for (size_t i = 0; i < list->size() && !fields.problem().found(); ++i)
    messages.push_back(read_message((*list)[i], fmt::format("messages[{}]", i), fields.problem()));
  return messages;
}

}  // namespace neuronmm::serve
