#include "serve/protocol/prompt.h"

#include "serve/protocol/accepted_prompt.h"

namespace neuronmm::serve {
namespace {

void rename_developer_to_system(text::Conversation& conversation) {
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

// Returns the text with which calls in this syntax begin; empty if there is none.
std::string mark_of(ToolSyntax syntax) {
  const std::vector<std::string> tokens = special_tokens_of(syntax);
  return tokens.empty() ? std::string() : tokens.front();
}

}  // namespace

ApiError outside_vocabulary(const ServedModel& model, TokenId id, const std::string& param) {
  return invalid_request(
      param, fmt::format("{}: expected token ids below {}, found {}", param, model.vocab_size, id));
}

ApiResult<ChatPromptTokens> chat_prompt(const ServedModel& model,
                                        const text::Conversation& conversation,
                                        bool add_special_tokens, std::optional<ToolSyntax> calls) {
  TemplateTraits traits = conversation.tools.is_null() ? model.plain_chats : model.tool_chats;
  if (calls && !conversation.tools.is_null() && mark_of(*calls) != mark_of(traits.tools))
    traits.tools = ToolSyntax::kDescribed;
  text::Conversation chat = conversation;
  if (!traits.has_developer) rename_developer_to_system(chat);
  const auto rendered = accepted_prompt(*model.tokenizer, traits, chat);
  if (!rendered.ok()) return invalid_request("messages", rendered.error().message);
  const text::EncodeOptions options = {.add_special_tokens = add_special_tokens,
                                       .literal = rendered->from_messages};
  NMM_ASSIGN(std::vector<TokenId> tokens, encode(model, rendered->text, options, "messages"));
  return ChatPromptTokens{rendered->text, std::move(tokens), reasoning_of(traits, chat, *rendered)};
}

ApiResult<std::vector<TokenId>> text_prompt(const ServedModel& model, std::string_view text,
                                            bool add_special_tokens, const std::string& param) {
  const text::EncodeOptions options = {.add_special_tokens = add_special_tokens};
  NMM_ASSIGN(std::vector<TokenId> tokens, encode(model, text, options, param));
  const auto bos = model.tokenizer->bos_id();
  if (bos && add_special_tokens && tokens.size() > 1 && tokens[0] == *bos && tokens[1] == *bos)
    tokens.erase(tokens.begin());
  return tokens;
}

ApiResult<std::vector<TokenId>> completion_prompt(const ServedModel& model,
                                                  const TextOrTokens& prompt,
                                                  bool add_special_tokens,
                                                  const std::string& param) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return text_prompt(model, *text, add_special_tokens, param);
  const auto& tokens = std::get<std::vector<TokenId>>(prompt);
  for (const TokenId id : tokens) {
    if (id < 0 || id >= model.vocab_size) return outside_vocabulary(model, id, param);
  }
  return tokens;
}

ApiResult<std::vector<TokenId>> code_tokens(const ServedModel& model, std::string_view text,
                                            const std::string& param) {
  return encode(model, text, {.add_special_tokens = false, .parse_added_tokens = false}, param);
}

ApiResult<std::vector<TokenId>> mixed_tokens(const ServedModel& model, const MixedText& mixed,
                                             const std::string& param, bool parse_special,
                                             bool add_begin) {
  std::vector<TokenId> tokens;
  for (const auto& part : mixed) {
    if (const auto* id = std::get_if<TokenId>(&part)) {
      if (*id >= model.vocab_size) return outside_vocabulary(model, *id, param);
      tokens.push_back(*id);
      continue;
    }
    const std::string& text = std::get<std::string>(part);
    const bool begins = add_begin && &part == &mixed.front();
    const text::EncodeOptions plain = {.add_special_tokens = begins, .parse_added_tokens = false};
    NMM_ASSIGN(const std::vector<TokenId> ids, parse_special
                                                   ? text_prompt(model, text, begins, param)
                                                   : encode(model, text, plain, param));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
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
