#include "serve/protocol/prompt_reasoning.h"

#include <algorithm>

#include "serve/requests/json_body.h"
#include "text/unicode/white_space.h"

namespace neuronmm::serve {
namespace {

// The most bytes that a template may write after the mark that opens the thoughts, for example
// "Okay, ". A mark farther from the end belongs to an explanation. Assumed.
constexpr size_t kMostOpened = 64;

// Returns the template's text after the last message.
std::string_view end_of(const text::ChatPrompt& prompt) {
  size_t begin = 0;
  for (const text::ByteRange& range : prompt.from_messages) begin = std::max(begin, range.end);
  return std::string_view(prompt.text).substr(std::min(begin, prompt.text.size()));
}

// Returns whether the last mark in `text` opens thoughts or ends them, or nothing if there is none.
std::optional<bool> last_mark_opens(std::string_view text, const ReasoningTags& tags) {
  const size_t open = text.rfind(tags.begin), close = text.rfind(tags.end);
  if (open == std::string_view::npos && close == std::string_view::npos) return std::nullopt;
  return close == std::string_view::npos || (open != std::string_view::npos && open > close);
}

std::optional<PromptReasoning> at_end(std::string_view end) {
  for (const ReasoningTags& tags : known_reasoning_tags()) {
    const auto opens = last_mark_opens(end, tags);
    if (!opens) continue;
    const std::string& mark = *opens ? tags.begin : tags.end;
    const size_t after = end.size() - end.rfind(mark) - mark.size();
    if (*opens && after <= kMostOpened) return PromptReasoning{Thinking::kOpened, tags};
    if (!*opens && text::strip_right(end).ends_with(mark)) return PromptReasoning{};
  }
  return std::nullopt;
}

}  // namespace

PromptReasoning reasoning_of(const TemplateTraits& traits, const text::Conversation& conversation,
                             const text::ChatPrompt& prompt) {
  if (!conversation.continue_field.empty()) {
    if (!traits.thinks) return {};
    const std::string content = conversation.messages.back().value("content", "");
    const bool opened = last_mark_opens(content, traits.reasoning).value_or(false);
    return {opened ? Thinking::kOpened : Thinking::kNone, traits.reasoning};
  }
  if (const auto found = at_end(end_of(prompt))) return *found;
  if (!traits.thinks) return {};
  const auto enabled = conversation.template_kwargs.find("enable_thinking");
  const bool off = enabled != conversation.template_kwargs.end() && *enabled == false;
  return {off ? Thinking::kNone : Thinking::kOptional, traits.reasoning};
}

}  // namespace neuronmm::serve
