#include "serve/responses/ollama_writer.h"

#include <algorithm>
#include <utility>

#include <fmt/chrono.h>

#include "serve/output/truncated_json.h"
#include "serve/responses/logprob_json.h"

namespace neuronmm::serve {

std::string ollama_time(std::chrono::system_clock::time_point time) {
  using std::chrono::microseconds;
  const auto since = std::chrono::duration_cast<microseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<time_t>(since / 1'000'000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(seconds), since % 1'000'000);
}

Json ollama_answer_head(OllamaForm form, const std::string& model) {
  Json head = {{"model", model}, {"created_at", ollama_time(std::chrono::system_clock::now())}};
  if (form == OllamaForm::kChat)
    head["message"] = {{"role", "assistant"}, {"content", ""}};
  else
    head["response"] = "";
  return head;
}

OllamaWriter::OllamaWriter(ResponseSettings settings_in, ChatOutputSettings chat, OllamaForm form,
                           bool returns_context, std::shared_ptr<ResponseSink> sink)
    : ResponseWriter(std::move(settings_in), std::move(sink)),
      chat_(std::move(chat)),
      form_(form),
      returns_context_(returns_context),
      output_(tokenizer(), settings().text, chat_, settings().prompts.front()),
      random_(chat_.id_seed) {
  if (returns_context_) context_ = settings().prompts.front();
}

bool OllamaWriter::add_token(size_t, const GeneratedToken& token) {
  if (!first_token_) first_token_ = Clock::now();
  if (returns_context_) context_.push_back(token.id);
  if (settings().logprobs && token.logprobs) {
    Json logprob = chat_logprob(tokenizer(), *token.logprobs);
    if (logprob["top_logprobs"].empty()) logprob.erase("top_logprobs");
    piece_.logprobs.push_back(std::move(logprob));
  }
  add(output_.push(token.id));
  send_piece();
  return !output_.ended();
}

// The token that ends a turn stays in the context, because the next turn begins after it.
void OllamaWriter::add_end(size_t, const End& end) {
  add(output_.finish(end.stop_token));
  end_call();
  send_piece();
  if (returns_context_ && end.stop_token) context_.push_back(*end.stop_token);
  done_reason_ = end.reason;
}

void OllamaWriter::add(const std::vector<OutputDelta>& deltas) {
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == OutputDelta::Kind::kArguments) {
      call_->arguments += delta.text;
      continue;
    }
    end_call();
    if (delta.kind == OutputDelta::Kind::kReasoning) piece_.thinking += delta.text;
    if (delta.kind == OutputDelta::Kind::kContent) piece_.content += delta.text;
    if (delta.kind == OutputDelta::Kind::kCall)
      call_ = Call{random_call_id(chat_.tools, random_), delta.text, ""};
  }
}

// Arguments are objects in this protocol, so a call is sent when it is complete.
void OllamaWriter::end_call() {
  if (call_) piece_.calls.push_back(*std::exchange(call_, std::nullopt));
}

void OllamaWriter::send_piece() {
  if (!settings().stream || piece_.empty()) return;
  Json line = take_piece();
  line["done"] = false;
  sink().event(dump_json(line) + "\n");
}

Json OllamaWriter::take_piece() {
  Piece piece = std::exchange(piece_, {});
  Json json = ollama_answer_head(form_, settings().model);
  const bool chat = form_ == OllamaForm::kChat;
  Json& place = chat ? json["message"] : json;
  place[chat ? "content" : "response"] = std::move(piece.content);
  if (!piece.thinking.empty()) place["thinking"] = std::move(piece.thinking);
  for (const Call& call : piece.calls) {
    place["tool_calls"].push_back({{"id", call.id},
                                   {"function",
                                    {{"index", calls_sent_++},
                                     {"name", call.name},
                                     {"arguments", parse_truncated_object(call.arguments)}}}});
  }
  if (!piece.logprobs.empty()) json["logprobs"] = std::move(piece.logprobs);
  return json;
}

// Adds the counts and the times in nanoseconds. Clients divide by the times, so none is 0. The
// model is always loaded: what the protocol calls the time of loading is the time in the queue.
void OllamaWriter::add_metrics(Json& json) const {
  const auto between = [](Clock::time_point from, Clock::time_point to) {
    const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
    return std::max<int64_t>(time, 1);
  };
  const Clock::time_point now = Clock::now(), first = first_token_.value_or(now);
  json["total_duration"] = between(arrived_, now);
  json["load_duration"] = between(arrived_, started_);
  json["prompt_eval_count"] = counts().prompt;
  json["prompt_eval_duration"] = between(started_, first);
  json["eval_count"] = counts().completion;
  json["eval_duration"] = between(first, now);
}

void OllamaWriter::send_rest() {
  Json json = take_piece();
  json["done"] = true;
  json["done_reason"] = done_reason_;
  if (returns_context_) json["context"] = std::move(context_);
  add_metrics(json);
  if (!settings().stream) return sink().response(200, dump_json(json));
  sink().event(dump_json(json) + "\n");
}

}  // namespace neuronmm::serve
