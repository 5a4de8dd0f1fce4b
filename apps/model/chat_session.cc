#include "model/chat_session.h"

#include <fmt/format.h>

#include "model/draft_option.h"
#include "text/chat_template.h"

namespace neuronmm::apps {
namespace {

using Json = text::Conversation::Json;

constexpr const char* kWhenFull = "/clear begins a new conversation, and /save keeps this one";

bool has_role(const Json& message, const char* role) {
  return message.contains("role") && message["role"] == role;
}

}  // namespace

Status ChatSession::send(const std::string& message) {
  const Json before = conversation_.messages;
  if (unanswered()) conversation_.messages.erase(conversation_.messages.size() - 1);
  conversation_.add_message("user", message);
  Status answered = answer();
  if (!answered.ok()) conversation_.messages = before;
  return answered;
}

Status ChatSession::regenerate() {
  const Json before = conversation_.messages;
  Json& messages = conversation_.messages;
  while (!messages.empty() && !has_role(messages.back(), "user"))
    messages.erase(messages.size() - 1);
  if (messages.empty()) {
    messages = before;
    return fail("there is no message to answer again");
  }
  Status answered = answer();
  if (!answered.ok()) messages = before;
  return answered;
}

bool ChatSession::unanswered() const {
  return !conversation_.messages.empty() && has_role(conversation_.messages.back(), "user");
}

void ChatSession::set_system(const std::string& text) {
  Json& messages = conversation_.messages;
  if (!messages.empty() && has_role(messages.front(), "system")) messages.erase(0);
  if (!text.empty()) messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

void ChatSession::clear() {
  Json& messages = conversation_.messages;
  const bool keeps_system = !messages.empty() && has_role(messages.front(), "system");
  messages.erase(messages.begin() + (keeps_system ? 1 : 0), messages.end());
}

// Says once that the draft has failed.
void ChatSession::report_draft_failure() {
  if (draft_failed_ || model_.speculation == nullptr || !model_.speculation->failure()) return;
  draft_failed_ = true;
  print_draft_failure(model_.draft, *model_.speculation->failure());
}

// Every answer uses another seed, so that a second answer to the same message may differ.
Status ChatSession::answer() {
  conversation_.add_generation_prompt = true;
  conversation_.continue_field.clear();
  NMM_ASSIGN(const auto prompt, text::apply_chat_template(model_.tokenizer, conversation_));
  NMM_ASSIGN(const auto tokens,
             model_.tokenizer.encode(
                 prompt.text, {.add_special_tokens = false, .literal = prompt.from_messages}));
  const int64_t context = model_.transformer.config().max_position_embeddings;
  if (std::ssize(tokens) >= context)
    return fail(
        "the conversation has {} tokens and leaves no room for an answer in the context of "
        "{}: {}",
        tokens.size(), context, kWhenFull);
  model::GenerateOptions options = model_.options;
  options.sampling.seed += answer_count_++;
  NMM_ASSIGN(
      const auto answered,
      stream_answer(model_.transformer, model_.tokenizer, tokens, options,
                    {.stop = model_.stop, .cache = &cache_, .speculation = model_.speculation}));
  report_draft_failure();
  const bool cut_off = answered.generation.stop == model::Generation::Stop::kInterrupted;
  if (!cut_off || !answered.text.empty()) conversation_.add_message("assistant", answered.text);
  print_cut(answered.generation, context,
            {.context_full = kWhenFull,
             .limit = "--max-new-tokens N sets another one, and a message such as \"Go on.\" may "
                      "get the rest"});
  if (model_.timings && !cut_off) print_timings(tokens.size(), answered.generation, model_.device);
  return {};
}

}  // namespace neuronmm::apps
