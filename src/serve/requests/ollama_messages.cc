#include "serve/requests/ollama_messages.h"

#include <algorithm>
#include <cctype>
#include <deque>

namespace neuronmm::serve {
namespace {

// A call of the last message of the assistant that has no result yet.
struct OpenCall {
  std::string id, name;
};

class MessageReader {
 public:
  explicit MessageReader(RequestProblem& problem) : problem_(problem) {}

  Json read(const Json& value, const std::string& path) {
    if (!expect_object(value, path, "\"role\" and \"content\"", problem_)) return {};
    FieldReader reader(value, path + ".", problem_);
    const std::string role = read_role(reader);
    Json message = {{"role", role}, {"content", reader.string("content").value_or("")}};
    reader.refuse("images", "this model reads text");
    const auto thinking = reader.string("thinking");
    const Json calls = read_calls(reader);
    const OpenCall result = read_result(reader);
    if (role == "assistant") {
      if (!thinking.value_or("").empty()) message["reasoning_content"] = *thinking;
      if (!calls.empty()) message["tool_calls"] = calls;
    } else if (role == "tool") {
      add_result(result, message);
    }
    return message;
  }

 private:
  static std::string read_role(FieldReader& reader) {
    std::string role = reader.required_string("role");
    std::ranges::transform(role, role.begin(), [](unsigned char c) { return std::tolower(c); });
    if (role != "system" && role != "user" && role != "assistant" && role != "tool" &&
        role != "developer")
      reader.add_mismatch("role", "\"system\", \"user\", \"assistant\" or \"tool\"");
    return role;
  }

  Json read_calls(FieldReader& reader) {
    const Json* calls = reader.array("tool_calls");
    Json read = Json::array();
    if (calls == nullptr || calls->empty()) return read;
    open_.clear();
    for (size_t i = 0; i < calls->size() && !problem_.found(); ++i)
      read.push_back(read_call((*calls)[i], fmt::format("{}[{}]", reader.path("tool_calls"), i)));
    return read;
  }

  Json read_call(const Json& value, const std::string& path) {
    if (!expect_object(value, path, "\"function\"", problem_)) return {};
    FieldReader reader(value, path + ".", problem_);
    const Json* function = reader.object("function");
    if (function == nullptr) {
      reader.add_mismatch("function", "an object with \"name\" and \"arguments\"");
      return {};
    }
    FieldReader parts(*function, reader.path("function."), problem_);
    const std::string name = parts.required_string("name");
    const Json* arguments = parts.object("arguments");
    std::string id = reader.string("id").value_or("");
    if (id.empty()) id = fmt::format("call{:05}", ++calls_);  // nine characters, as Mistral demands
    open_.push_back({id, name});
    return {{"id", id},
            {"type", "function"},
            {"function", {{"name", name}, {"arguments", arguments ? *arguments : Json::object()}}}};
  }

  // Reads which call a message is the result of.
  static OpenCall read_result(FieldReader& reader) {
    const auto tool = reader.string("tool_name"), name = reader.string("name");
    const auto id = reader.string("tool_call_id");
    return {id.value_or(""), tool.value_or("").empty() ? name.value_or("") : *tool};
  }

  void add_result(OpenCall result, Json& message) {
    auto call = std::ranges::find_if(open_, [&](const OpenCall& open) {
      return result.id.empty() ? open.name == result.name : open.id == result.id;
    });
    if (call == open_.end()) call = open_.begin();
    if (call != open_.end()) {
      if (result.id.empty()) result.id = call->id;
      if (result.name.empty()) result.name = call->name;
      open_.erase(call);
    }
    if (!result.id.empty()) message["tool_call_id"] = result.id;
    if (!result.name.empty()) message["name"] = result.name;
  }

  RequestProblem& problem_;
  std::deque<OpenCall> open_;
  int64_t calls_ = 0;  // the number of calls that got an id here
};

}  // namespace

Json read_ollama_messages(FieldReader& fields) {
  Json messages = Json::array();
  const Json* list = fields.array("messages");
  if (list == nullptr) return messages;
  MessageReader reader(fields.problem());
  for (size_t i = 0; i < list->size() && !fields.problem().found(); ++i)
    messages.push_back(reader.read((*list)[i], fmt::format("messages[{}]", i)));
  return messages;
}

}  // namespace neuronmm::serve
