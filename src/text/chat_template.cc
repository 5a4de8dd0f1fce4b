#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "text/white_space.h"

namespace neuronmm::text {
namespace {

using Messages = std::vector<ChatMessage>;

// The template of Llama-3 (3.0), whole.
constexpr std::string_view kLlama3Template =
    R"({% set loop_messages = messages %}{% for message in loop_messages %})"
    R"({% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n')"
    R"(+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %})"
    R"({% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %})"
    R"({% if add_generation_prompt %})"
    R"({{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";

// Plain ChatML, whole.
constexpr std::string_view kChatMlTemplate =
    R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n')"
    R"( + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %})"
    R"({{ '<|im_start|>assistant\n' }}{% endif %})";

// What the templates of Llama 3.1, 3.2 and 3.3 have in common: the system header is always there
// and begins with two dates.
constexpr std::array<std::string_view, 4> kLlama31Marks = {
    R"({{- "Cutting Knowledge Date: December 2023\n" }})",
    R"({{- "Today Date: " + date_string + "\n\n" }})", R"("26 Jul 2024")",
    R"({{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'])"
    R"( | trim + '<|eot_id|>' }})"};

// What the templates of the Qwen3 releases with a switch between thinking and not have in common.
constexpr std::array<std::string_view, 5> kQwen3Marks = {
    R"({{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }})",
    R"(ns.last_query_index)",
    R"({%- set content = message.content.split('</think>')[-1].lstrip('\n') %})",
    R"(+ '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }})",
    R"({%- if enable_thinking is defined and enable_thinking is false %})"};

// The date that Llama 3.1's template has as its default. (Llama 3.2's asks for the clock first; we
// keep the default so that a prompt is the same every day.)
constexpr std::string_view kLlama31Dates =
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

// Inside Jinja's strings "\\n" and a newline are the same, and published templates have either. A
// newline at the end of the source is not part of it.
std::string canonical(std::string_view source) {
  if (source.ends_with('\n')) source.remove_suffix(1);
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    const bool newline = source.substr(i).starts_with("\\n");
    text += newline ? '\n' : source[i];
    i += newline;
  }
  return text;
}

bool has_all(std::string_view text, std::span<const std::string_view> marks) {
  return std::all_of(marks.begin(), marks.end(), [&](auto mark) {
    return text.find(canonical(mark)) != std::string_view::npos;
  });
}

// str.strip() of Python: White_Space and the four information separators.
bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }
std::string_view trim(std::string_view text) {
  return strip_left(strip_right(text, is_python_space), is_python_space);
}

bool is_newline(char32_t c) { return c == '\n'; }

// The pieces of a prompt in their order.
class PromptWriter {
 public:
  PromptWriter& add(std::string_view of_the_template) {
    prompt_.text += of_the_template;
    return *this;
  }
  PromptWriter& say(std::string_view content) {
    const size_t begin = prompt_.text.size();
    prompt_.text += content;
    if (!content.empty()) prompt_.said.push_back({begin, prompt_.text.size()});
    return *this;
  }
  ChatPrompt take() { return std::move(prompt_); }

 private:
  ChatPrompt prompt_;
};

void add_llama3_header(PromptWriter& prompt, std::string_view role) {
  prompt.add("<|start_header_id|>").add(role).add("<|end_header_id|>\n\n");
}

ChatPrompt finish_llama3(PromptWriter prompt, std::span<const ChatMessage> messages,
                         bool add_generation_prompt) {
  for (const ChatMessage& message : messages) {
    add_llama3_header(prompt, message.role);
    prompt.say(trim(message.content)).add("<|eot_id|>");
  }
  if (add_generation_prompt) add_llama3_header(prompt, "assistant");
  return prompt.take();
}

ChatPrompt apply_llama3(std::string_view bos, std::span<const ChatMessage> messages,
                        bool add_generation_prompt) {
  PromptWriter prompt;
  prompt.add(bos);
  return finish_llama3(std::move(prompt), messages, add_generation_prompt);
}

ChatPrompt apply_llama31(std::string_view bos, std::span<const ChatMessage> messages,
                         bool add_generation_prompt) {
  PromptWriter prompt;
  add_llama3_header(prompt.add(bos), "system");
  prompt.add(kLlama31Dates);
  if (messages.front().role == "system") {
    prompt.say(trim(messages.front().content));
    messages = messages.subspan(1);
  }
  prompt.add("<|eot_id|>");
  return finish_llama3(std::move(prompt), messages, add_generation_prompt);
}

void add_chatml_turn(PromptWriter& prompt, std::string_view role, std::string_view content) {
  prompt.add("<|im_start|>").add(role).add("\n").say(content).add("<|im_end|>\n");
}

ChatPrompt apply_chatml(std::span<const ChatMessage> messages, bool add_generation_prompt) {
  PromptWriter prompt;
  for (const ChatMessage& message : messages)
    add_chatml_turn(prompt, message.role, message.content);
  if (add_generation_prompt) prompt.add("<|im_start|>assistant\n");
  return prompt.take();
}

// What an assistant said: "<think>reasoning</think>content".
struct Thought {
  std::string_view reasoning, content;
};

Thought split_thought(std::string_view text) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const size_t first_end = text.find(kEnd);
  if (first_end == std::string_view::npos) return {"", text};
  std::string_view reasoning = strip_right(text.substr(0, first_end), is_newline);
  if (const size_t begin = reasoning.rfind(kBegin); begin != std::string_view::npos)
    reasoning.remove_prefix(begin + kBegin.size());
  const std::string_view content = text.substr(text.rfind(kEnd) + kEnd.size());
  return {strip_left(reasoning, is_newline), strip_left(content, is_newline)};
}

// Qwen3 keeps the reasoning of the assistant's turns after this message only: the last one of the
// user that is no tool's answer.
int64_t last_query_index(std::span<const ChatMessage> messages) {
  for (int64_t i = std::ssize(messages) - 1; i >= 0; --i) {
    const auto& [role, content] = messages[static_cast<size_t>(i)];
    const bool is_tool_response =
        content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
    if (role == "user" && !is_tool_response) return i;
  }
  return std::ssize(messages) - 1;
}

ChatPrompt apply_qwen3(std::span<const ChatMessage> messages, bool add_generation_prompt) {
  const int64_t last_query = last_query_index(messages);
  PromptWriter prompt;
  for (int64_t i = 0; i < std::ssize(messages); ++i) {
    const auto& [role, content] = messages[static_cast<size_t>(i)];
    if (role != "assistant") {
      add_chatml_turn(prompt, role, content);
      continue;
    }
    const Thought thought = split_thought(content);
    const bool is_last = i + 1 == std::ssize(messages);
    if (i > last_query && (is_last || !thought.reasoning.empty())) {
      prompt.add("<|im_start|>").add(role).add("\n<think>\n");
      prompt.say(strip_right(thought.reasoning, is_newline)).add("\n</think>\n\n");
      prompt.say(strip_left(thought.content, is_newline)).add("<|im_end|>\n");
    } else {
      add_chatml_turn(prompt, role, thought.content);
    }
  }
  if (add_generation_prompt) prompt.add("<|im_start|>assistant\n");
  return prompt.take();
}

Status check_messages(const Messages& messages) {
  if (messages.empty()) return fail("chat: expected at least one message, found none");
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant")
      return fail("chat: message {}: expected the role system, user or assistant, found {:?}", i,
                  role);
  }
  return {};
}

}  // namespace

Result<ChatPrompt> apply_chat_template(const Tokenizer& tokenizer, const Messages& messages,
                                       bool add_generation_prompt) {
  NMM_TRY(check_messages(messages));
  const std::string source = canonical(tokenizer.chat_template());
  if (source.empty())
    return fail(
        "chat: the model has no chat template (tokenizer_config.json, chat_template.jinja)");
  if (source == canonical(kChatMlTemplate)) return apply_chatml(messages, add_generation_prompt);
  if (has_all(source, kQwen3Marks)) return apply_qwen3(messages, add_generation_prompt);
  const bool llama31 = has_all(source, kLlama31Marks);
  if (!llama31 && source != canonical(kLlama3Template))
    return fail(
        "chat: the model's chat template is none of those that are built in: Llama-3, Llama-3.1 to "
        "3.3, Qwen3, plain ChatML");
  if (!tokenizer.bos_id())
    return fail("chat: the Llama-3 template needs a bos_token in tokenizer_config.json");
  const TokenId bos_id = *tokenizer.bos_id();
  const std::string bos = tokenizer.decode({&bos_id, 1});
  return llama31 ? apply_llama31(bos, messages, add_generation_prompt)
                 : apply_llama3(bos, messages, add_generation_prompt);
}

}  // namespace neuronmm::text
