#include "serve/protocol/described_tools.h"

#include <fmt/format.h>

namespace neuronmm::serve {
namespace {

std::string content_of(const Json& message) {
  const auto found = message.find("content");
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Appends `lines` to `text`, beginning on a new line.
void append_lines(std::string& text, std::string_view lines) {
  if (!text.empty()) text += '\n';
  text += lines;
}

Json call_as_text(const Json& message) {
  std::string text = content_of(message);
  for (const Json& call : message["tool_calls"]) {
    const Json& function = call["function"];
    const Json& arguments = function["arguments"];
    // If a model wrote something else than an object, it is shown unchanged.
    const std::string written =
        arguments.is_string() ? arguments.get<std::string>() : dump_json(arguments);
    append_lines(text, fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
                                   dump_json(function["name"]), written));
  }
  Json plain = message;
  plain.erase("tool_calls");
  plain["content"] = std::move(text);
  return plain;
}

std::string description_of(const Json& tools) {
  std::string text =
      "# Tools\n\nYou may call one or more functions to help the user. These are the functions, "
      "as JSON:\n<tools>\n";
  for (const Json& tool : tools) text += dump_json(tool) + "\n";
  text +=
      "</tools>\n\nTo call a function, answer with its name and arguments as a JSON object between "
      "<tool_call></tool_call> tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
      "<arguments-object>}\n</tool_call>";
  return text;
}

bool is_from_system(const Json& message) {
  return message["role"] == "system" || message["role"] == "developer";
}

text::Conversation without_tools(const text::Conversation& conversation) {
  text::Conversation chat = conversation;
  chat.messages = with_calls_as_text(conversation.messages);
  chat.tools = nullptr;
  return chat;
}

}  // namespace

Json with_calls_as_text(const Json& messages) {
  Json shown = Json::array();
  bool in_results = false;
  for (const Json& message : messages) {
    if (message["role"] != "tool") {
      shown.push_back(message.contains("tool_calls") ? call_as_text(message) : message);
      in_results = false;
      continue;
    }
    const std::string result =
        fmt::format("<tool_response>\n{}\n</tool_response>", content_of(message));
    if (in_results) {
      append_lines(shown.back()["content"].get_ref<std::string&>(), result);
    } else {
      shown.push_back({{"role", "user"}, {"content", result}});
    }
    in_results = true;
  }
  return shown;
}

text::Conversation with_described_tools(const text::Conversation& conversation) {
  text::Conversation chat = without_tools(conversation);
  if (conversation.tools.is_null()) return chat;
  if (chat.messages.empty() || !is_from_system(chat.messages.front()))
    chat.messages.insert(chat.messages.begin(), Json{{"role", "system"}, {"content", ""}});
  std::string text = content_of(chat.messages.front());
  if (!text.empty()) text += "\n\n";
  chat.messages.front()["content"] = text + description_of(conversation.tools);
  return chat;
}

}  // namespace neuronmm::serve
