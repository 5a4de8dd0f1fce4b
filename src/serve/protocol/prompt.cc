#include "serve/protocol/prompt.h"

#include "serve/protocol/described_tools.h"
#include "text/chat_template.h"
#include "text/white_space.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";

Thinking thinking_of(const TemplateTraits& traits, const text::Conversation& conversation,
                     std::string_view prompt) {
  if (!traits.thinks) return Thinking::kNone;
  if (!conversation.continue_field.empty()) {
    const Json& last = conversation.messages.back();
    const std::string said = last.value("content", "");
    const size_t open = said.rfind(kThink), close = said.rfind(kThinkEnd);
    if (open == std::string::npos) return Thinking::kNone;
    return close == std::string::npos || close < open ? Thinking::kOpened : Thinking::kNone;
  }
  const std::string_view shown = text::strip_right(prompt);
  if (shown.ends_with(kThink)) return Thinking::kOpened;
  if (shown.ends_with(kThinkEnd)) return Thinking::kNone;
  const auto enabled = conversation.template_kwargs.find("enable_thinking");
  const bool off = enabled != conversation.template_kwargs.end() && *enabled == false;
  return off ? Thinking::kNone : Thinking::kOptional;
}

void call_developers_system(text::Conversation& conversation) {
  for (Json& message : conversation.messages) {
    if (message["role"] == "developer") message["role"] = "system";
  }
}

ApiResult<std::vector<TokenId>> encode(const ServedModel& model, std::string_view text,
                                       const text::EncodeOptions& options,
                                       const std::string& param) {
  auto ids = model.tokenizer->encode(text, options);
  if (!ids.ok()) return invalid_request(param, param + ": " + ids.error().message);
  return std::move(ids).value();
}

}  // namespace

ApiResult<ChatPromptTokens> chat_prompt(const ServedModel& model,
                                        const text::Conversation& conversation,
                                        bool add_special_tokens) {
  const TemplateTraits& traits =
      conversation.tools.is_null() ? model.plain_chats : model.tool_chats;
  text::Conversation chat = conversation;
  if (!traits.has_developer) call_developers_system(chat);
  const bool describes = traits.tools == ToolSyntax::kDescribed;
  auto shown =
      text::apply_chat_template(*model.tokenizer, describes ? with_described_tools(chat) : chat);
  if (!shown.ok() && describes && !chat.tools.is_null()) {
    auto by_user = text::apply_chat_template(*model.tokenizer, with_tools_told_by_user(chat));
    if (by_user.ok()) shown = std::move(by_user);
  }
  if (!shown.ok()) return invalid_request("messages", shown.error().message);
  const text::EncodeOptions options = {.add_special_tokens = add_special_tokens,
                                       .literal = shown->from_messages};
  NMM_ASSIGN(std::vector<TokenId> tokens, encode(model, shown->text, options, "messages"));
  return ChatPromptTokens{shown->text, std::move(tokens), thinking_of(traits, chat, shown->text)};
}

ApiResult<std::vector<TokenId>> text_prompt(const ServedModel& model, std::string_view text,
                                            bool add_special_tokens) {
  const text::EncodeOptions options = {.add_special_tokens = add_special_tokens};
  NMM_ASSIGN(std::vector<TokenId> tokens, encode(model, text, options, "prompt"));
  const auto bos = model.tokenizer->bos_id();
  if (bos && add_special_tokens && tokens.size() > 1 && tokens[0] == *bos && tokens[1] == *bos)
    tokens.erase(tokens.begin());
  return tokens;
}

ApiResult<std::vector<TokenId>> completion_prompt(const ServedModel& model,
                                                  const TextOrTokens& prompt,
                                                  bool add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return text_prompt(model, *text, add_special_tokens);
  const auto& tokens = std::get<std::vector<TokenId>>(prompt);
  for (const TokenId id : tokens) {
    if (id < 0 || id >= model.vocab_size)
      return invalid_request("prompt", fmt::format("prompt: expected token ids below {}, found {}",
                                                   model.vocab_size, id));
  }
  return tokens;
}

ApiResult<bool> check_prompt(const ServedModel& model, const std::vector<TokenId>& prompt,
                             std::optional<int64_t> max_tokens, const std::string& param) {
  if (prompt.empty())
    return invalid_request(param, param + ": expected at least one token, found none");
  const int64_t most = model.context_tokens - (max_tokens == 0 ? 0 : 1);
  if (std::ssize(prompt) > most)
    return prompt_too_long(param, std::ssize(prompt), model.context_tokens);
  return true;
}

}  // namespace neuronmm::serve
