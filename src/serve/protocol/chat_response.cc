#include "serve/protocol/chat_response.h"

#include "serve/protocol/logprob_json.h"

namespace neuronmm::serve {

ChatResponse::ChatResponse(ResponseSettings settings_in, ChatSettings chat,
                           std::shared_ptr<AnswerSink> sink)
    : ResponseWriter(std::move(settings_in), std::move(sink)),
      chat_(std::move(chat)),
      random_(chat_.id_seed) {
  AnswerTextOptions options = settings().text;
  for (const std::string& token : special_tokens_of(chat_.tools)) {
    if (const auto id = tokenizer().token_to_id(token)) options.kept_tokens.insert(*id);
  }
  for (size_t i = 0; i < answers(); ++i) {
    AnswerText text(tokenizer(), options);
    if (chat_.continues_message) text.continue_after(settings().prompts.front());
    choices_.emplace_back(
        std::move(text),
        AnswerParser(chat_.thinking, make_tool_call_parser(chat_.tools, chat_.tool_list),
                     chat_.parallel_calls));
  }
}

const char* ChatResponse::object_name() const {
  return settings().stream ? "chat.completion.chunk" : "chat.completion";
}

// Mistral's templates want nine letters and digits; others take anything.
std::string ChatResponse::call_id() {
  const bool mistral =
      chat_.tools == ToolSyntax::kMistral || chat_.tools == ToolSyntax::kMistralByName;
  return mistral ? random_id("", 9, random_) : random_id("call_", 24, random_);
}

// The first chunk comes with the first token: clients take its time for that.
void ChatResponse::begin(size_t index) {
  Choice& choice = choices_[index];
  if (choice.begun) return;
  choice.begun = true;
  if (settings().stream) {
    Json fields = Json::object();
    if (settings().return_token_ids) fields["prompt_token_ids"] = settings().prompts.front();
    send({{"index", index},
          {"delta", {{"role", "assistant"}, {"content", ""}}},
          {"logprobs", nullptr},
          {"finish_reason", nullptr}},
         fields);
  }
  if (!chat_.echo.empty()) tell(index, {{AnswerDelta::Kind::kContent, chat_.echo, 0}});
}

bool ChatResponse::add_token(size_t index, const GeneratedToken& token) {
  begin(index);
  Choice& choice = choices_[index];
  if (settings().logprobs && token.logprobs)
    choice.logprobs.push_back(chat_logprob(tokenizer(), *token.logprobs));
  if (settings().return_token_ids) choice.token_ids.push_back(token.id);
  tell(index, choice.parser.push(choice.text.push(token.id)));
  return !choice.text.stopped() && !choice.parser.ended();
}

void ChatResponse::add_end(size_t index, const End& end) {
  begin(index);
  Choice& choice = choices_[index];
  tell(index, choice.parser.push(choice.text.finish(end.stop_token)));
  tell(index, choice.parser.finish());
  if (!choice.parser.has_calls() && !chat_.named_call.empty())
    tell(index, {{AnswerDelta::Kind::kCall, chat_.named_call, 0}});
  const bool calls = choice.parser.has_calls() && chat_.named_call.empty() && end.reason == "stop";
  choice.finish_reason = calls ? "tool_calls" : end.reason;
  choice.stop_reason = stop_reason(choice.text, end);
  if (!settings().stream) return;
  if (!choice.logprobs.empty() || !choice.token_ids.empty()) send_delta(index, {{"content", ""}});
  send({{"index", index},
        {"delta", Json::object()},
        {"logprobs", nullptr},
        {"finish_reason", choice.finish_reason},
        {"stop_reason", choice.stop_reason}});
}

void ChatResponse::tell(size_t index, const std::vector<AnswerDelta>& deltas) {
  for (const AnswerDelta& delta : deltas) {
    if (chat_.forced_calls && delta.kind == AnswerDelta::Kind::kContent) continue;
    if (settings().stream)
      send_delta(index, delta_json(delta));
    else
      collect(choices_[index], delta);
  }
}

void ChatResponse::collect(Choice& choice, const AnswerDelta& delta) {
  switch (delta.kind) {
    case AnswerDelta::Kind::kReasoning:
      choice.reasoning += delta.text;
      break;
    case AnswerDelta::Kind::kContent:
      choice.content += delta.text;
      break;
    case AnswerDelta::Kind::kCall:
      choice.calls.push_back({call_id(), delta.text, ""});
      break;
    case AnswerDelta::Kind::kArguments:
      choice.calls[static_cast<size_t>(delta.call)].arguments += delta.text;
      break;
  }
}

Json ChatResponse::delta_json(const AnswerDelta& delta) {
  switch (delta.kind) {
    case AnswerDelta::Kind::kReasoning:
      return {{"reasoning_content", delta.text}};
    case AnswerDelta::Kind::kContent:
      return {{"content", delta.text}};
    case AnswerDelta::Kind::kCall: {
      const Json call = {{"index", delta.call},
                         {"id", call_id()},
                         {"type", "function"},
                         {"function", {{"name", delta.text}, {"arguments", ""}}}};
      return {{"tool_calls", Json::array({call})}};
    }
    case AnswerDelta::Kind::kArguments:
      break;
  }
  const Json call = {{"index", delta.call}, {"function", {{"arguments", delta.text}}}};
  return {{"tool_calls", Json::array({call})}};
}

// With the log probabilities and ids of all tokens since the chunk before.
void ChatResponse::send_delta(size_t index, Json delta) {
  Choice& choice = choices_[index];
  Json json = {{"index", index},
               {"delta", std::move(delta)},
               {"logprobs", take_logprobs(choice)},
               {"finish_reason", nullptr}};
  if (settings().return_token_ids) json["token_ids"] = std::exchange(choice.token_ids, {});
  send(std::move(json));
}

Json ChatResponse::take_logprobs(Choice& choice) {
  if (!settings().logprobs || choice.logprobs.empty()) return {};
  return {{"content", std::exchange(choice.logprobs, Json::array())}, {"refusal", nullptr}};
}

std::vector<Json> ChatResponse::whole_choices() {
  std::vector<Json> list;
  for (Choice& choice : choices_) {
    const bool no_content = choice.content.empty() && (!choice.calls.empty() || chat_.forced_calls);
    Json message = {{"role", "assistant"},
                    {"content", no_content ? Json() : Json(choice.content)},
                    {"refusal", nullptr}};
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    for (const Call& call : choice.calls) {
      message["tool_calls"].push_back(
          {{"id", call.id},
           {"type", "function"},
           {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    Json json = {{"index", list.size()},
                 {"message", std::move(message)},
                 {"logprobs", take_logprobs(choice)},
                 {"finish_reason", choice.finish_reason},
                 {"stop_reason", choice.stop_reason}};
    if (settings().return_token_ids) json["token_ids"] = choice.token_ids;
    list.push_back(std::move(json));
  }
  return list;
}

void ChatResponse::add_head_fields(Json& body) {
  if (settings().return_token_ids) body["prompt_token_ids"] = settings().prompts.front();
}

}  // namespace neuronmm::serve
