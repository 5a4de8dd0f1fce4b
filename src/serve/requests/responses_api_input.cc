#include "serve/requests/responses_api_input.h"

#include "serve/requests/chat_messages.h"
#include "serve/requests/custom_tools.h"

namespace neuronmm::serve {
namespace {

bool is_system(const Json& message) {
  const std::string role = message.value("role", "");
  return role == "system" || role == "developer";
}

// Appends in place, because a request may have thousands of pieces.
void append(Json& text, std::string_view between, const Json& more) {
  if (text.is_null()) text = "";
  auto& whole = text.get_ref<std::string&>();
  if (!whole.empty()) whole += between;
  whole += more.get_ref<const std::string&>();
}

// Returns the texts of the parts at `key`, whose "type" must be `type`, joined by line feeds.
std::string texts_of(FieldReader& item, const char* key, std::string_view type) {
  std::string text;
  const Json* parts = item.array(key);
  for (size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", item.path(key), i);
    if (!(*parts)[i].is_object()) {
      item.add_mismatch(key, fmt::format("an array of objects of type {:?}", type));
      break;
    }
    FieldReader part((*parts)[i], path + ".", item.problem());
    if (part.required_string("type") != type) part.add_mismatch("type", fmt::format("{:?}", type));
    if (i > 0) text += '\n';
    text += part.required_string("text");
  }
  return text;
}

class InputMessages {
 public:
  explicit InputMessages(RequestProblem& problem) : problem_(problem) {}

  void add_instructions(const std::string& text) {
    messages_.push_back({{"role", "system"}, {"content", text}});
  }

  void add_user_text(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
  }

  void add(const Json& item, const std::string& path) {
    if (!expect_object(item, path, "\"type\"", problem_)) return;
    FieldReader reader(item, path + ".", problem_);
    const std::string type = reader.string("type").value_or("message");
    if (type == "message") return add_message(item, path);
    if (type == "function_call" || type == "custom_tool_call")
      return add_call(reader, type == "custom_tool_call");
    if (type == "function_call_output" || type == "custom_tool_call_output")
      return add_output(reader);
    if (type == "reasoning") return add_thought(reader);
    reader.add_mismatch(
        "type",
        "\"message\", \"function_call\", \"function_call_output\", \"custom_tool_call\", "
        "\"custom_tool_call_output\" or \"reasoning\": this server keeps no responses and runs no "
        "tools");
  }

  Json take() { return std::move(messages_); }

 private:
  void add_message(const Json& item, const std::string& path) {
    Json message = read_message(item, path, problem_);
    if (problem_.found()) return;
    Json* const last = messages_.empty() ? nullptr : &messages_.back();
    if (message["role"] == "assistant") {
      if (!assistant_ || last->contains("tool_calls") || last->at("content") != "")
        messages_.push_back({{"role", "assistant"}});
      messages_.back().update(message);
      assistant_ = true;
      return;
    }
    assistant_ = false;
    if (messages_.size() == 1 && is_system(*last) && is_system(message)) {
      append((*last)["content"], "\n\n", message["content"]);
      return;
    }
    messages_.push_back(std::move(message));
  }

  void add_call(FieldReader& item, bool custom) {
    Json call = {{"id", item.required_string("call_id")}, {"type", "function"}};
    const auto name_space = item.string("namespace");
    const std::string name = item.required_string("name");
    call["function"] = {{"name", name_space ? fmt::format("{}.{}", *name_space, name) : name},
                        {"arguments", custom ? custom_arguments(item.string("input").value_or(""))
                                             : read_arguments(item)}};
    Json& calls = assistant()["tool_calls"];
    calls.push_back(std::move(call));
  }

  void add_output(FieldReader& item) {
    assistant_ = false;
    const std::string id = item.required_string("call_id");
    const auto output = read_content(item, "output");
    if (!output) item.add_mismatch("output", "a string or an array of parts");
    messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", output.value_or("")}});
  }

  // Adds a thought to the assistant's message: its text or, if that is missing, its summary.
  void add_thought(FieldReader& item) {
    std::string text = texts_of(item, "content", "reasoning_text");
    const std::string summary = texts_of(item, "summary", "summary_text");
    if (text.empty()) text = summary;
    if (assistant_ &&
        (messages_.back().contains("tool_calls") || messages_.back().at("content") != ""))
      assistant_ = false;  // a thought after text or calls begins a new message
    Json& message = assistant();
    if (!text.empty()) append(message["reasoning_content"], "\n", text);
  }

  // Returns the message of the assistant that the next calls and thoughts belong to.
  Json& assistant() {
    if (!assistant_) messages_.push_back({{"role", "assistant"}, {"content", ""}});
    assistant_ = true;
    return messages_.back();
  }

  RequestProblem& problem_;
  Json messages_ = Json::array();
  // True if the last message is from the assistant and can receive more parts.
  bool assistant_ = false;
};

}  // namespace

Json read_responses_api_input(FieldReader& fields) {
  InputMessages messages(fields.problem());
  const auto instructions = fields.string("instructions");
  if (instructions && !instructions->empty()) messages.add_instructions(*instructions);
  const Json* input = fields.find("input");
  if (input != nullptr && input->is_string()) {
    messages.add_user_text(input->get<std::string>());
  } else if (input != nullptr && input->is_array() && !input->empty()) {
    for (size_t i = 0; i < input->size() && !fields.problem().found(); ++i)
      messages.add((*input)[i], fmt::format("input[{}]", i));
  } else {
    fields.add_mismatch("input", "a string or an array of at least one item");
  }
  return messages.take();
}

}  // namespace neuronmm::serve
