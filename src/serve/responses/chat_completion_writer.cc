#include "serve/responses/chat_completion_writer.h"

#include "serve/responses/logprob_json.h"

namespace neuronmm::serve {

ChatCompletionWriter::ChatCompletionWriter(ResponseSettings settings_in, ChatOutputSettings chat,
                                           std::shared_ptr<ResponseSink> sink)
    : ChoicesWriter(std::move(settings_in), std::move(sink)),
      chat_(std::move(chat)),
      random_(chat_.id_seed) {
  for (size_t i = 0; i < answers(); ++i)
    choices_.emplace_back(
        ChatOutput(tokenizer(), settings().text, chat_, settings().prompts.front()));
}

const char* ChatCompletionWriter::object_name() const {
  return settings().stream ? "chat.completion.chunk" : "chat.completion";
}

// Sends the first chunk, together with the first token: clients measure the time to the first token
// by the first chunk.
void ChatCompletionWriter::begin(size_t index) {
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
  if (!chat_.echo.empty()) send_deltas(index, {{OutputDelta::Kind::kContent, chat_.echo, 0}});
}

bool ChatCompletionWriter::add_token(size_t index, const GeneratedToken& token) {
  begin(index);
  Choice& choice = choices_[index];
  if (settings().logprobs && token.logprobs)
    choice.logprobs.push_back(chat_logprob(tokenizer(), *token.logprobs));
  if (settings().return_token_ids) choice.token_ids.push_back(token.id);
  send_deltas(index, choice.output.push(token.id));
  return !choice.output.ended();
}

void ChatCompletionWriter::add_end(size_t index, const End& end) {
  begin(index);
  Choice& choice = choices_[index];
  send_deltas(index, choice.output.finish(end.stop_token));
  const bool calls = choice.output.has_calls() && chat_.named_call.empty() &&
                     end.reason == "stop" && !choice.output.cut_call();
  choice.finish_reason = calls ? "tool_calls" : end.reason;
  choice.stop_reason = stop_reason(choice.output.text(), end);
  if (!settings().stream) return;
  if (!choice.logprobs.empty() || !choice.token_ids.empty()) send_delta(index, {{"content", ""}});
  send({{"index", index},
        {"delta", Json::object()},
        {"logprobs", nullptr},
        {"finish_reason", choice.finish_reason},
        {"stop_reason", choice.stop_reason}});
}

void ChatCompletionWriter::send_deltas(size_t index, const std::vector<OutputDelta>& deltas) {
  for (const OutputDelta& delta : deltas) {
    if (settings().stream)
      send_delta(index, delta_json(choices_[index], delta));
    else
      collect(choices_[index], delta);
  }
}

void ChatCompletionWriter::collect(Choice& choice, const OutputDelta& delta) {
  switch (delta.kind) {
    case OutputDelta::Kind::kReasoning:
      choice.reasoning += delta.text;
      break;
    case OutputDelta::Kind::kContent:
      choice.content += delta.text;
      break;
    case OutputDelta::Kind::kCall:
      choice.calls.push_back({random_call_id(chat_.tools, random_), delta.text, ""});
      break;
    case OutputDelta::Kind::kArguments:
      choice.calls[static_cast<size_t>(delta.call)].arguments += delta.text;
      break;
  }
}

Json ChatCompletionWriter::delta_json(Choice& choice, const OutputDelta& delta) {
  switch (delta.kind) {
    case OutputDelta::Kind::kReasoning:
      return {{"reasoning_content", delta.text}};
    case OutputDelta::Kind::kContent:
      return {{"content", delta.text}};
    case OutputDelta::Kind::kCall: {
      choice.in_custom_call = is_custom_tool(*chat_.tool_list, delta.text);
      Json call = {{"index", delta.call}};
      call.update(call_json({random_call_id(chat_.tools, random_), delta.text, ""}));
      return {{"tool_calls", Json::array({call})}};
    }
    case OutputDelta::Kind::kArguments:
      break;
  }
  const Json call = choice.in_custom_call
                        ? Json{{"index", delta.call}, {"custom", {{"input", delta.text}}}}
                        : Json{{"index", delta.call}, {"function", {{"arguments", delta.text}}}};
  return {{"tool_calls", Json::array({call})}};
}

Json ChatCompletionWriter::call_json(const Call& call) const {
  if (is_custom_tool(*chat_.tool_list, call.name))
    return {{"id", call.id},
            {"type", "custom"},
            {"custom", {{"name", call.name}, {"input", call.arguments}}}};
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

// Sends a chunk with the log probabilities and ids of all tokens since the previous chunk.
void ChatCompletionWriter::send_delta(size_t index, Json delta) {
  Choice& choice = choices_[index];
  Json json = {{"index", index},
               {"delta", std::move(delta)},
               {"logprobs", take_logprobs(choice)},
               {"finish_reason", nullptr}};
  if (settings().return_token_ids) json["token_ids"] = std::exchange(choice.token_ids, {});
  send(std::move(json));
}

Json ChatCompletionWriter::take_logprobs(Choice& choice) {
  if (!settings().logprobs || choice.logprobs.empty()) return {};
  return {{"content", std::exchange(choice.logprobs, Json::array())}, {"refusal", nullptr}};
}

std::vector<Json> ChatCompletionWriter::whole_choices() {
  std::vector<Json> list;
  for (Choice& choice : choices_) {
    const bool no_content = choice.content.empty() && (!choice.calls.empty() || chat_.forced_calls);
    Json message = {{"role", "assistant"},
                    {"content", no_content ? Json() : Json(choice.content)},
                    {"refusal", nullptr}};
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    for (const Call& call : choice.calls) {
      message["tool_calls"].push_back(call_json(call));
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

void ChatCompletionWriter::add_head_fields(Json& body) {
  if (settings().return_token_ids) body["prompt_token_ids"] = settings().prompts.front();
}

}  // namespace neuronmm::serve
