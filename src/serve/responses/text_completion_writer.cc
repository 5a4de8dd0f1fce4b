#include "serve/responses/text_completion_writer.h"

namespace neuronmm::serve {

TextCompletionWriter::TextCompletionWriter(ResponseSettings settings_in,
                                           TextCompletionSettings completion,
                                           std::shared_ptr<ResponseSink> sink)
    : ChoicesWriter(std::move(settings_in), std::move(sink)),
      completion_(std::move(completion)),
      prompt_logprobs_(settings().prompts.size()) {
  for (size_t i = 0; i < answers(); ++i) {
    OutputDetokenizer text(tokenizer(), settings().text);
    text.continue_after(prompt_of(i));
    choices_.emplace_back(std::move(text));
  }
}

void TextCompletionWriter::add_prompt_logprobs(size_t prompt,
                                               std::vector<model::TokenLogprobs>&& logprobs) {
  prompt_logprobs_[prompt] = std::move(logprobs);
}

void TextCompletionWriter::begin(size_t index) {
  Choice& choice = choices_[index];
  if (choice.begun) return;
  choice.begun = true;
  if (completion_.echo.empty()) return;
  const size_t prompt = index / static_cast<size_t>(settings().choices);
  if (settings().logprobs) {
    // The first token of a prompt has no log probability, because no token precedes it.
    const std::vector<TokenId>& tokens = prompt_of(index);
    const auto& logprobs = prompt_logprobs_[prompt];
    choice.logprobs.add(tokenizer(), tokens.front(), {});
    for (size_t i = 1; i < tokens.size(); ++i) {
      const bool known = i <= logprobs.size();
      choice.logprobs.add(tokenizer(), tokens[i],
                          known ? std::optional(logprobs[i - 1]) : std::nullopt);
    }
  }
  tell(index, completion_.echo[prompt]);
}

bool TextCompletionWriter::add_token(size_t index, const GeneratedToken& token) {
  begin(index);
  Choice& choice = choices_[index];
  if (settings().logprobs) choice.logprobs.add(tokenizer(), token.id, token.logprobs);
  if (settings().return_token_ids) choice.token_ids.push_back(token.id);
  tell(index, choice.text.push(token.id));
  return !choice.text.stopped();
}

void TextCompletionWriter::add_end(size_t index, const End& end) {
  begin(index);
  Choice& choice = choices_[index];
  tell(index, choice.text.finish(end.stop_token));
  choice.finish_reason = end.reason;
  choice.stop_reason = stop_reason(choice.text, end);
  if (settings().stream) send(choice_json(index, ""));
}

void TextCompletionWriter::tell(size_t index, const std::string& text) {
  if (text.empty()) return;
  if (settings().stream)
    send(choice_json(index, text));
  else
    choices_[index].told += text;
}

// Returns a choice with the log probabilities and ids of all tokens since the previous chunk.
Json TextCompletionWriter::choice_json(size_t index, std::string text) {
  Choice& choice = choices_[index];
  const bool ended = !choice.finish_reason.empty();
  Json json = {{"index", index},
               {"text", std::move(text)},
               {"logprobs", choice.logprobs.empty() ? Json() : choice.logprobs.take()},
               {"finish_reason", ended ? Json(choice.finish_reason) : Json()}};
  if (ended) json["stop_reason"] = choice.stop_reason;
  if (settings().return_token_ids) {
    json["token_ids"] = std::exchange(choice.token_ids, {});
    if (!std::exchange(choice.prompt_told, true)) json["prompt_token_ids"] = prompt_of(index);
  }
  return json;
}

std::vector<Json> TextCompletionWriter::whole_choices() {
  std::vector<Json> list;
  for (size_t i = 0; i < choices_.size(); ++i)
    list.push_back(choice_json(i, std::move(choices_[i].told)));
  return list;
}

}  // namespace neuronmm::serve
