#include "serve/protocol/accepted_prompt.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "serve/protocol/conversation_variants.h"
#include "serve/protocol/described_tools.h"

namespace neuronmm::serve {
namespace {

// The number of texts that are looked for in a prompt. What a template shows does not depend on the
// number of messages, so the first ones suffice. Assumed.
constexpr int kMostSearches = 32;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns the longest run of letters and digits, which no template changes.
std::string_view longest_word(std::string_view text) {
  std::string_view longest;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    size_t end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end - begin > longest.size()) longest = text.substr(begin, end - begin);
    begin = end;
  }
  return longest;
}

// Returns whether the prompt has the names of calls, the results and the system's texts.
bool shows_all(std::string_view prompt, const Json& messages) {
  int searches = 0;
  const auto shows = [&](std::string_view text) {
    const std::string_view word = longest_word(text);
    return word.empty() || ++searches > kMostSearches ||
           prompt.find(word) != std::string_view::npos;
  };
  for (const Json& message : messages) {
    if (message["role"] == "system" || message["role"] == "tool") {
      if (!shows(message["content"].get_ref<const std::string&>())) return false;
    }
    if (!message.contains("tool_calls")) continue;
    for (const Json& call : message["tool_calls"]) {
      if (!shows(call["function"]["name"].get_ref<const std::string&>())) return false;
    }
  }
  return true;
}

using Form = Json (*)(const Json&);

Json object_arguments(const Json& messages) { return with_object_arguments(messages); }
Json short_ids(const Json& messages) { return with_short_ids(messages); }

// Returns the forms that are tried after the conversation as it is. Each one is a list of changes.
const std::vector<std::vector<Form>>& forms() {
  static const std::vector<std::vector<Form>> all = {
      {},
      {object_arguments},
      {object_arguments, with_single_calls},
      {object_arguments, with_single_calls, short_ids},
      {with_merged_turns},
      {object_arguments, with_single_calls, short_ids, with_merged_turns},
      {with_system_as_user, with_merged_turns},
      {object_arguments, with_single_calls, short_ids, with_system_as_user, with_merged_turns},
      {with_calls_as_text, with_merged_turns},
      {with_calls_as_text, with_system_as_user, with_merged_turns},
  };
  return all;
}

// Adds empty descriptions to functions that have none, because some templates demand them.
void add_descriptions(Json& tools) {
  if (!tools.is_array()) return;
  for (Json& tool : tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    Json& description = tool["function"]["description"];
    if (description.is_null()) description = "";
  }
}

// Sets variables that templates of functionary and Firefunction take from their callers, and an
// empty list of tools where a template reads it although there are none.
void add_variables(text::Conversation& conversation) {
  const Json& tools = conversation.tools;
  Json& variables = conversation.template_kwargs;
  const auto set = [&](const char* name, const std::string& value) {
    if (!variables.contains(name)) variables[name] = value;
  };
  set("functions", tools.is_null() ? "[]" : tools.dump(4));
  set("datetime", fmt::format("{:%b %d %Y}, GMT", fmt::gmtime(std::time(nullptr))));
  if (tools.is_null()) conversation.tools = Json::array();
}

// Returns a hash of what a prompt depends on.
size_t hash_of(const text::Conversation& conversation) {
  std::string text;
  for (const Json* part :
       {&conversation.messages, &conversation.tools, &conversation.template_kwargs})
    text += dump_json(*part) + '\n';
  return std::hash<std::string>()(text);
}

// The attempts to render one conversation.
class Attempts {
 public:
  explicit Attempts(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Renders messages that were not tried before. Returns whether the prompt shows all.
  bool render(const text::Conversation& conversation) {
    const size_t hash = hash_of(conversation);
    if (std::ranges::count(tried_, hash) > 0) return false;
    tried_.push_back(hash);
    auto rendered = text::apply_chat_template(tokenizer_, conversation);
    const bool complete = rendered.ok() && shows_all(rendered->text, conversation.messages);
    if (!result_ || complete || (rendered.ok() && !result_->ok())) result_ = std::move(rendered);
    return complete;
  }
  // Returns whether the template has accepted a form.
  bool accepted() const { return result_ && result_->ok(); }
  Result<text::ChatPrompt> take() { return *std::move(result_); }

 private:
  const text::Tokenizer& tokenizer_;
  // Hashes, because a conversation may take hundreds of megabytes. Equal hashes of different
  // conversations would only leave out a form.
  std::vector<size_t> tried_;
  std::optional<Result<text::ChatPrompt>> result_;
};

}  // namespace

Result<text::ChatPrompt> accepted_prompt(const text::Tokenizer& tokenizer,
                                         const TemplateTraits& traits,
                                         const text::Conversation& conversation) {
  const text::Conversation first =
      traits.tools == ToolSyntax::kDescribed ? with_described_tools(conversation) : conversation;
  Attempts attempts(tokenizer);
  if (attempts.render(first)) return attempts.take();
  text::Conversation described = first;
  add_descriptions(described.tools);
  text::Conversation completed = described;
  add_variables(completed);
  for (const text::Conversation* source : {&std::as_const(described), &std::as_const(completed)}) {
    for (const std::vector<Form>& form : forms()) {
      text::Conversation changed = *source;
      for (const Form change : form) changed.messages = change(changed.messages);
      if (attempts.render(changed)) return attempts.take();
    }
    if (attempts.accepted()) break;
  }
  return attempts.take();
}

}  // namespace neuronmm::serve
