#include "serve/output/chat_output.h"

#include <nlohmann/json.hpp>

#include "serve/output/random_id.h"

namespace neuronmm::serve {
namespace {

OutputDetokenizerOptions with_calls(const text::Tokenizer& tokenizer,
                                    OutputDetokenizerOptions options,
                                    const ChatOutputSettings& chat) {
  std::vector<std::string> marks = special_tokens_of(chat.tools);
  if (chat.thinking != Thinking::kNone)
    marks.insert(marks.end(), {chat.reasoning_tags.begin, chat.reasoning_tags.end});
  for (const std::string& token : marks) {
    if (const auto id = tokenizer.token_to_id(token)) options.kept_tokens.insert(*id);
  }
  return options;
}

}  // namespace

ChatOutput::ChatOutput(const text::Tokenizer& tokenizer, OutputDetokenizerOptions options,
                       const ChatOutputSettings& chat, std::span<const TokenId> prompt)
    : text_(tokenizer, with_calls(tokenizer, std::move(options), chat)),
      parser_(chat.thinking, make_tool_call_parser(chat.tools, chat.tool_list), chat.parallel_calls,
              chat.reasoning_tags),
      custom_(chat.tool_list),
      forced_calls_(chat.forced_calls),
      named_call_(chat.named_call) {
  if (chat.continues_message) text_.continue_after(prompt);
}

std::vector<OutputDelta> ChatOutput::push(TokenId id) {
  return filtered(parser_.push(text_.push(id)));
}

std::vector<OutputDelta> ChatOutput::finish(std::optional<TokenId> stop_token) {
  std::vector<OutputDelta> deltas = parser_.push(text_.finish(stop_token));
  for (OutputDelta& delta : parser_.finish()) deltas.push_back(std::move(delta));
  if (!parser_.has_calls() && !named_call_.empty())
    deltas.push_back({OutputDelta::Kind::kCall, named_call_, 0});
  deltas = filtered(std::move(deltas));
  for (OutputDelta& delta : custom_.finish()) deltas.push_back(std::move(delta));
  return deltas;
}

bool ChatOutput::cut_call() const {
  return text_.stopped() && has_calls() && !nlohmann::json::accept(arguments_);
}

std::vector<OutputDelta> ChatOutput::filtered(std::vector<OutputDelta> deltas) {
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == OutputDelta::Kind::kCall) arguments_.clear();
    if (delta.kind == OutputDelta::Kind::kArguments) arguments_ += delta.text;
  }
  if (forced_calls_)
    std::erase_if(
        deltas, [](const OutputDelta& delta) { return delta.kind == OutputDelta::Kind::kContent; });
  return custom_.convert(std::move(deltas));
}

std::string random_call_id(ToolSyntax syntax, std::mt19937_64& random, std::string_view prefix) {
  const bool mistral = syntax == ToolSyntax::kMistral || syntax == ToolSyntax::kMistralByName;
  return mistral ? random_id("", 9, random) : random_id(prefix, 24, random);
}

}  // namespace neuronmm::serve
