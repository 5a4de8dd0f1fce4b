#include "text/conversation.h"

#include <utility>

#include "io/json_file.h"
#include "io/ordered_json.h"

namespace neuronmm::text {
namespace {

using Json = Conversation::Json;

// The strict reader checks the text first, but does not keep the order of keys, which templates
// see.
Result<Json> parse_ordered(std::string_view text, const std::string& source) {
  NMM_TRY(io::parse_json(text, source));
  return io::parse_ordered_json(text);
}

Error wrong(const std::string& source, std::string_view key, std::string_view expected,
            const Json& found) {
  return fail("{}: \"{}\": expected {}, found {}", source, key, expected,
              io::describe_json(nlohmann::json(found)));
}

Status check_objects(const Json& list, const std::string& source, std::string_view key) {
  if (!list.is_array()) return wrong(source, key, "a list of objects", list);
  for (const Json& element : list) {
    if (!element.is_object()) return wrong(source, key, "a list of objects", element);
  }
  return {};
}

Status read_field(Conversation& conversation, const std::string& key, const Json& value,
                  const std::string& source) {
  if (key == "messages" || key == "tools" || key == "documents") {
    if (value.is_null() && key != "messages") return {};
    NMM_TRY(check_objects(value, source, key));
    (key == "messages" ? conversation.messages
     : key == "tools"  ? conversation.tools
                       : conversation.documents) = value;
  } else if (key == "add_generation_prompt") {
    if (!value.is_boolean()) return wrong(source, key, "true or false", value);
    conversation.add_generation_prompt = value.get<bool>();
  } else if (key == "continue_final_message") {
    if (!value.is_boolean() && !value.is_string())
      return wrong(source, key, "true, false or the name of a field", value);
    if (value.is_string()) conversation.continue_field = value.get<std::string>();
    if (value == true) conversation.continue_field = "content";
  } else if (key == "chat_template_kwargs") {
    if (!value.is_object()) return wrong(source, key, "an object", value);
    conversation.template_kwargs = value;
  } else {
    return fail(
        "{}: expected messages, tools, documents, add_generation_prompt, continue_final_message or "
        "chat_template_kwargs, found \"{}\"",
        source, key);
  }
  return {};
}

}  // namespace

void Conversation::add_message(std::string role, std::string content) {
  messages.push_back({{"role", std::move(role)}, {"content", std::move(content)}});
}

Result<Conversation> parse_conversation(std::string_view text, const std::string& source) {
  NMM_ASSIGN(const Json root, parse_ordered(text, source));
  Conversation conversation;
  if (root.is_array()) {
    NMM_TRY(read_field(conversation, "messages", root, source));
    return conversation;
  }
  if (!root.is_object() || !root.contains("messages"))
    return fail("{}: expected a list of messages or an object with \"messages\", found {}", source,
                io::describe_json(nlohmann::json(root)));
  for (const auto& [key, value] : root.items()) {
    NMM_TRY(read_field(conversation, key, value, source));
  }
  // An answer that continues a message needs no generation prompt.
  if (!root.contains("add_generation_prompt") && !conversation.continue_field.empty())
    conversation.add_generation_prompt = false;
  return conversation;
}

std::string conversation_json(const Conversation& conversation) {
  Json root = {{"messages", conversation.messages}};
  if (!conversation.tools.is_null()) root["tools"] = conversation.tools;
  if (!conversation.documents.is_null()) root["documents"] = conversation.documents;
  if (!conversation.template_kwargs.empty())
    root["chat_template_kwargs"] = conversation.template_kwargs;
  if (!conversation.continue_field.empty())
    root["continue_final_message"] = conversation.continue_field;
  root["add_generation_prompt"] = conversation.add_generation_prompt;
  return root.dump(2) + "\n";
}

Result<Json> parse_tools(std::string_view text, const std::string& source) {
  NMM_ASSIGN(Json tools, parse_ordered(text, source));
  NMM_TRY(check_objects(tools, source, "tools"));
  return tools;
}

Result<Json> parse_template_kwargs(std::string_view text, const std::string& source) {
  NMM_ASSIGN(Json variables, parse_ordered(text, source));
  if (variables.is_object()) return variables;
  return fail("{}: expected an object, found {}", source,
              io::describe_json(nlohmann::json(variables)));
}

}  // namespace neuronmm::text
