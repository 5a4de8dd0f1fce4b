#include "serve/requests/anthropic_messages.h"

#include <utility>

namespace neuronmm::serve {
namespace {

void append(std::string& text, std::string_view between, const std::string& more) {
  if (!text.empty() && !more.empty()) text += between;
  text += more;
}

// Calls read(FieldReader of a block, the block's type) for each block of the field `key`, which is
// "content" or "system". A text counts as one block.
template <typename Read>
void for_each_block(FieldReader& fields, const char* key, const Read& read) {
  const Json* content = fields.find(key);
  if (content != nullptr && content->is_string()) {
    const Json block = {{"type", "text"}, {"text", *content}};
    FieldReader reader(block, fields.path(key) + ".", fields.problem());
    return read(reader, "text");
  }
  if (content == nullptr || !content->is_array())
    return fields.add_mismatch(key, "a string or an array of blocks");
  for (size_t i = 0; i < content->size() && !fields.problem().found(); ++i) {
    const std::string path = fmt::format("{}[{}]", fields.path(key), i);
    const Json& block = (*content)[i];
    if (!expect_object(block, path, "\"type\"", fields.problem())) return;
    FieldReader reader(block, path + ".", fields.problem());
    read(reader, reader.required_string("type"));
  }
}

// Returns whether a text is the billing header of Claude Code. It differs from request to request,
// so a prompt that began with it would never be found in the prefix cache. No model needs it.
bool is_billing_header(std::string_view text) {
  return text.starts_with("x-anthropic-billing-header:") &&
         text.find('\n') == std::string_view::npos;
}

class AnthropicMessageReader {
 public:
  explicit AnthropicMessageReader(FieldReader& fields) : fields_(fields) {}

  void read_system() {
    if (fields_.find("system") == nullptr) return;
    for_each_block(fields_, "system", [&](FieldReader& block, const std::string& type) {
      if (type != "text") return block.add_mismatch("type", "\"text\"");
      const std::string text = block.required_string("text");
      if (!is_billing_header(text)) append(system_, "\n", text);
    });
  }

  void add(const Json& message, const std::string& path) {
    if (!expect_object(message, path, "\"role\" and \"content\"", fields_.problem())) return;
    FieldReader reader(message, path + ".", fields_.problem());
    const std::string role = reader.required_string("role");
    if (role == "user") {
      add_user(reader);
    } else if (role == "assistant") {
      add_assistant(reader);
    } else if (role == "system") {
      add_system(reader);
    } else {
      reader.add_mismatch("role", "\"user\", \"assistant\" or \"system\"");
    }
  }

  AnthropicConversation take() {
    add_late_system_text();
    if (conversation_.messages.empty())
      add_text("user", "");  // templates demand a message to answer
    if (!system_.empty())
      conversation_.messages.insert(conversation_.messages.begin(),
                                    Json{{"role", "system"}, {"content", system_}});
    const Json& last = conversation_.messages.back();
    conversation_.continues =
        last.at("role") == "assistant" && last.at("content") != "" && !last.contains("tool_calls");
    return std::move(conversation_);
  }

 private:
  // Adds a message of the user. The results of tool calls come first, because they belong to the
  // calls of the message before.
  void add_user(FieldReader& message) {
    const size_t before = conversation_.messages.size();
    for_each_block(message, "content", [&](FieldReader& block, const std::string& type) {
      if (type == "tool_result") add_result(block);
    });
    for_each_block(message, "content", [&](FieldReader& block, const std::string& type) {
      if (type == "tool_result" || read_tool_change(block, type)) return;
      if (type == "text") return add_text("user", block.required_string("text"));
      block.add_mismatch(
          "type",
          "\"text\" or \"tool_result\": this model reads text, and this server runs no "
          "tools");
    });
    if (conversation_.messages.size() == before && last_role() != "user") add_text("user", "");
    add_late_system_text();
  }

  void add_result(FieldReader& block) {
    const std::string id = block.required_string("tool_use_id");
    std::string text;
    if (block.find("content") != nullptr)
      for_each_block(block, "content", [&](FieldReader& part, const std::string& type) {
        if (type == "text") return append(text, "\n", part.required_string("text"));
        if (type != "tool_reference")
          return part.add_mismatch("type", "\"text\", the only thing that this model reads");
        const std::string tool = part.required_string("tool_name");
        append(text, "\n", tool);
        conversation_.added_tools.insert(tool);
      });
    // Chat templates have no other way to mark a result as an error.
    const bool failed = block.boolean("is_error").value_or(false);
    if (failed && !text.starts_with("Error")) text = "Error: " + text;
    conversation_.messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", text}});
  }

  void add_assistant(FieldReader& message) {
    add_late_system_text();
    if (last_role() != "assistant")
      conversation_.messages.push_back({{"role", "assistant"}, {"content", ""}});
    Json& answer = conversation_.messages.back();
    for_each_block(message, "content", [&](FieldReader& block, const std::string& type) {
      if (type == "text") return add_text("assistant", block.required_string("text"));
      if (type == "tool_use") return answer["tool_calls"].push_back(read_call(block));
      if (type == "redacted_thinking") return;
      if (type != "thinking")
        return block.add_mismatch(
            "type",
            "\"text\", \"thinking\", \"redacted_thinking\" or \"tool_use\": this "
            "server runs no tools");
      const std::string thought = block.required_string("thinking");
      if (thought.empty()) return;
      Json& thoughts = answer["reasoning_content"];
      if (thoughts.is_null()) thoughts = "";
      append(thoughts.get_ref<std::string&>(), "\n", thought);
    });
  }

  // Reads a call. The input may be a text: a model may have written something else than an object,
  // and agents send it back unchanged.
  static Json read_call(FieldReader& block) {
    const std::string id = block.required_string("id"), name = block.required_string("name");
    const Json* input = block.find("input");
    if (input != nullptr && !input->is_object() && !input->is_string())
      block.add_mismatch("input", "an object");
    return {
        {"id", id},
        {"type", "function"},
        {"function", {{"name", name}, {"arguments", input == nullptr ? Json::object() : *input}}}};
  }

  void add_system(FieldReader& message) {
    std::string text;
    for_each_block(message, "content", [&](FieldReader& block, const std::string& type) {
      if (read_tool_change(block, type)) return;
      if (type != "text") return block.add_mismatch("type", "\"text\"");
      append(text, "\n", block.required_string("text"));
    });
    if (conversation_.messages.empty()) return append(system_, "\n\n", text);
    append(late_system_text_, "\n\n", text);
    if (last_role() != "assistant") add_late_system_text();
  }

  // Reads a block {"type": "tool_addition", "tool": {"type": "tool_reference", "name": ...}}, or
  // one of type tool_removal. Returns false if the block has another type.
  bool read_tool_change(FieldReader& block, const std::string& type) {
    if (type != "tool_addition" && type != "tool_removal") return false;
    const Json* tool = block.object("tool");
    if (tool == nullptr) {
      block.add_mismatch("tool", "an object with \"name\"");
      return true;
    }
    FieldReader reader(*tool, block.path("tool."), block.problem());
    if (reader.required_string("type") != "tool_reference")
      reader.add_mismatch("type", "\"tool_reference\"");
    const std::string name = reader.required_string("name");
    (type == "tool_addition" ? conversation_.added_tools : conversation_.removed_tools)
        .insert(name);
    (type == "tool_addition" ? conversation_.removed_tools : conversation_.added_tools).erase(name);
    return true;
  }

  // Adds the late text of the system to the last message if it is from the user or a tool, else in
  // a message of the user.
  void add_late_system_text() {
    const std::string late_text = std::exchange(late_system_text_, {});
    if (late_text.empty()) return;
    if (last_role() == "assistant") return add_text("user", late_text);
    append(conversation_.messages.back()["content"].get_ref<std::string&>(), "\n\n", late_text);
  }

  void add_text(const char* role, const std::string& text) {
    if (last_role() != role) conversation_.messages.push_back({{"role", role}, {"content", ""}});
    append(conversation_.messages.back()["content"].get_ref<std::string&>(), "\n", text);
  }

  std::string last_role() const {
    return conversation_.messages.empty()
               ? ""
               : conversation_.messages.back()["role"].get<std::string>();
  }

  FieldReader& fields_;
  AnthropicConversation conversation_;
  std::string system_;
  std::string late_system_text_;  // the system's, for the user's next message
};

}  // namespace

AnthropicConversation read_anthropic_messages(FieldReader& fields) {
  AnthropicMessageReader messages(fields);
  messages.read_system();
  const Json* list = fields.array("messages");
  if (list == nullptr || list->empty())
    fields.add_mismatch("messages", "an array of at least one message");
  for (size_t i = 0; list != nullptr && i < list->size() && !fields.problem().found(); ++i)
    messages.add((*list)[i], fmt::format("messages[{}]", i));
  return messages.take();
}

}  // namespace neuronmm::serve
