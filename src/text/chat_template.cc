#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/template.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {
namespace {

using Json = Conversation::Json;

// The names under which a message may hold its reasoning. Most templates read the first name; those
// of gpt-oss read the second.
constexpr std::array<const char*, 3> kReasoningFields = {"reasoning_content", "thinking",
                                                         "reasoning"};
// Marks where the last message ends, so that the text after it can be cut off. The space at its end
// shows whether the template trims messages.
constexpr std::string_view kEndMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kEndMarkWord = "CONTINUE_FINAL_MESSAGE_TAG";

bool is_reasoning(std::string_view field) {
  return std::ranges::find(kReasoningFields, field) != kReasoningFields.end();
}

// Returns the message without null fields, and with its reasoning under the names that templates
// know.
Json normalize(const Json& message) {
  Json plain = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) plain[key] = value;
  }
  for (const char* field : kReasoningFields) {
    if (!plain.contains(field)) continue;
    const Json reasoning = plain[field];
    Json all = Json::object();
    all["thinking"] = reasoning;
    all.update(plain);
    all["reasoning_content"] = reasoning;
    return all;
  }
  return plain;
}

// Appends the mark to the last part that is text. Returns that text without the mark.
Result<std::string> mark_parts(Json& parts) {
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!part->is_object() || !part->contains("text") || !(*part)["text"].is_string()) continue;
    auto& text = (*part)["text"].get_ref<std::string&>();
    std::string before = text;
    text += kEndMark;
    return before;
  }
  return fail("chat: the last message has no text to continue");
}

// Appends the mark to the field of the last message. Returns the text that is continued.
Result<std::string> mark_end(Json& messages, const std::string& field, const std::string& source) {
  Json& last = messages.back();
  if (!last.contains(field)) return fail("chat: the last message has no \"{}\" to continue", field);
  std::vector<std::string> fields = {field};
  if (is_reasoning(field)) {
    fields.clear();
    for (const char* other : kReasoningFields) {
      if (last.contains(other) && last[other] == last[field]) fields.emplace_back(other);
    }
  }
  if (std::ranges::none_of(
          fields, [&](const auto& name) { return source.find(name) != std::string::npos; }))
    return fail("chat: expected a field that the template reads to continue, found \"{}\"", field);
  if (last[field].is_array()) return mark_parts(last[field]);
  if (!last[field].is_string()) return fail("chat: the \"{}\" to continue is no text", field);
  const std::string text = last[field].get<std::string>();
  for (const std::string& name : fields) last[name].get_ref<std::string&>() += kEndMark;
  return text;
}

// Cuts the prompt at the mark, and at white space before it if the template trims messages.
Status cut_at_mark(ChatPrompt& prompt, std::string_view continued) {
  const std::string_view trimmed =
      strip_left(strip_right(continued, is_python_space), is_python_space);
  const size_t at = prompt.text.rfind(kEndMarkWord);
  if (at == std::string::npos || jinja::find_bytes(prompt.text, trimmed) == std::string::npos)
    return fail("chat: the template does not show the message to continue");
  const bool keeps_space = prompt.text.compare(at, kEndMark.size(), kEndMark) == 0;
  prompt.text.resize(at);
  if (!keeps_space) prompt.text.resize(strip_right(prompt.text, is_python_space).size());
  std::erase_if(prompt.from_messages,
                [&](const ByteRange& range) { return range.begin >= prompt.text.size(); });
  if (!prompt.from_messages.empty())
    prompt.from_messages.back().end = std::min(prompt.from_messages.back().end, prompt.text.size());
  return {};
}

Result<std::pair<std::string, std::string>> choose_template(const TokenizerConfig& config,
                                                            const Conversation& conversation) {
  const auto& templates = config.chat_templates;
  if (templates.empty())
    return fail(
        "chat: the model has no chat template (tokenizer_config.json, chat_template.jinja), so it "
        "only continues texts: use `neuronmm generate` without --chat, or POST /v1/completions");
  for (const char* name : {"tool_use", "default"}) {
    const auto found = templates.find(name);
    if (found != templates.end() && (name[0] == 'd' || !conversation.tools.is_null()))
      return std::pair(std::string("chat template"), found->second);
  }
  return fail("chat: expected a chat template named \"default\", found \"{}\"",
              templates.begin()->first);
}

Status check(const Conversation& conversation) {
  if (conversation.messages.empty()) return fail("chat: expected at least one message, found none");
  if (conversation.add_generation_prompt && !conversation.continue_field.empty())
    return fail("chat: the last message cannot be continued behind a generation prompt");
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt"}) {
    if (conversation.template_kwargs.contains(name))
      return fail("chat: expected other names among the template's variables, found \"{}\"", name);
  }
  return {};
}

}  // namespace

Result<ChatPrompt> apply_chat_template(const TokenizerConfig& config,
                                       const Conversation& conversation, std::time_t now,
                                       const jinja::Limits& limits) {
  using Origin = jinja::Variable::Origin;
  NMM_TRY(check(conversation));
  NMM_ASSIGN(const auto chosen, choose_template(config, conversation));
  NMM_ASSIGN(const auto parsed, jinja::Template::parse(chosen.second, chosen.first));
  Json messages = Json::array();
  for (const Json& message : conversation.messages) messages.push_back(normalize(message));
  std::string continued;
  if (!conversation.continue_field.empty()) {
    NMM_ASSIGN(continued, mark_end(messages, conversation.continue_field, chosen.second));
  }
  const Json special_tokens = config.special_tokens;
  const Json prompted = conversation.add_generation_prompt;
  std::vector<jinja::Variable> variables;
  for (const auto& [name, token] : special_tokens.items())
    variables.push_back({name, &token, Origin::kProgram});
  for (const auto& [name, value] : conversation.template_kwargs.items())
    variables.push_back({name, &value, Origin::kUser});
  variables.push_back({"messages", &messages, Origin::kMessages});
  variables.push_back({"tools", &conversation.tools, Origin::kUser});
  variables.push_back({"documents", &conversation.documents, Origin::kUser});
  variables.push_back({"add_generation_prompt", &prompted, Origin::kProgram});
  NMM_ASSIGN(jinja::Text text, parsed.render(variables, {.limits = limits, .now = now}));
  ChatPrompt prompt{std::move(text.bytes), {}};
  for (const jinja::Span& span : text.from_messages)
    prompt.from_messages.push_back({span.begin, span.end});
  if (!conversation.continue_field.empty()) {
    NMM_TRY(cut_at_mark(prompt, continued));
  }
  return prompt;
}

Result<ChatPrompt> apply_chat_template(const Tokenizer& tokenizer,
                                       const Conversation& conversation) {
  return apply_chat_template(tokenizer.config(), conversation, std::time(nullptr));
}

}  // namespace neuronmm::text
