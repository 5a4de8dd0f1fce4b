#include "serve/responses/llama_cpp_writer.h"

#include <algorithm>
#include <utility>

#include "serve/responses/logprob_json.h"
#include "text/unicode/utf8.h"

namespace neuronmm::serve {
namespace {

double milliseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double ratio(double a, double b) { return b > 0.0 ? a / b : 0.0; }

Json probability_json(const text::Tokenizer& tokenizer, const model::TokenLogprob& token) {
  const std::string bytes = tokenizer.token_bytes(token.id);
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {{"id", token.id},
          {"token", bytes.substr(0, static_cast<size_t>(text::valid_utf8_length(bytes)))},
          {"bytes", std::move(numbers)},
          {"logprob", finite_logprob(token.logprob)}};
}

Json probabilities_json(const text::Tokenizer& tokenizer, const model::TokenLogprobs& logprobs) {
  Json json = probability_json(tokenizer, logprobs.chosen);
  Json& top = json["top_logprobs"] = Json::array();
  for (const model::TokenLogprob& token : logprobs.top)
    top.push_back(probability_json(tokenizer, token));
  return json;
}

// Returns the fields with these paths, such as "generation_settings/n_predict", by their paths.
Json chosen_fields(const Json& whole, const std::vector<std::string>& paths) {
  Json chosen = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &whole;
    for (size_t begin = 0; at != nullptr && begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const auto found = at->is_object() ? at->find(path.substr(begin, end - begin)) : at->end();
      at = found == at->end() ? nullptr : &*found;
      begin = end + 1;
    }
    if (at != nullptr) chosen[path] = *at;
  }
  return chosen;
}

}  // namespace

LlamaCppWriter::LlamaCppWriter(ResponseSettings settings_in, LlamaCppSettings own,
                               std::shared_ptr<ResponseSink> sink)
    : ResponseWriter(std::move(settings_in), std::move(sink)),
      own_(std::move(own)),
      prompts_(settings().prompts.size()) {
  for (size_t i = 0; i < answers(); ++i) {
    OutputDetokenizer text(tokenizer(), settings().text);
    text.continue_after(prompt_of(i));
    answers_.emplace_back(std::move(text), own_.n_indent);
  }
}

void LlamaCppWriter::add_start(size_t prompt, const PromptUsage& usage) {
  prompts_[prompt] = {Clock::now(), usage.cached_tokens};
  if (!settings().stream || !own_.return_progress) return;
  const auto choices = static_cast<size_t>(settings().choices);
  for (size_t i = 0; i < choices; ++i)
    send_part(prompt * choices + i, {{"prompt_progress",
                                      {{"total", usage.prompt_tokens},
                                       {"cache", usage.cached_tokens},
                                       {"processed", usage.cached_tokens},
                                       {"time_ms", 0}}}});
}

void LlamaCppWriter::add_text(Answer& answer, std::string_view text) {
  const std::string taken = answer.lines.take(text);
  answer.content += taken;
  if (taken.find('\n') == std::string::npos) return;
  answer.has_new_line = true;
  answer.late = own_.t_max_predict_ms > 0 && milliseconds(Clock::now() - answer.first_token) >
                                                 static_cast<double>(own_.t_max_predict_ms);
}

bool LlamaCppWriter::add_token(size_t index, const GeneratedToken& token) {
  Answer& answer = answers_[index];
  answer.last_token = Clock::now();
  if (answer.tokens_predicted == 0) answer.first_token = answer.last_token;
  ++answer.tokens_predicted;
  if (settings().stream || own_.return_tokens) answer.tokens.push_back(token.id);
  if (token.logprobs)
    answer.probabilities.push_back(probabilities_json(tokenizer(), *token.logprobs));
  if (settings().stream && own_.return_progress && answer.tokens_predicted == 1) {
    const PromptState& prompt = prompts_[prompt_number(index)];
    const int64_t total = std::ssize(prompt_of(index));
    const auto time = static_cast<int64_t>(milliseconds(answer.first_token - prompt.start));
    std::vector<TokenId> tokens = std::exchange(answer.tokens, {});
    send_part(index, {{"prompt_progress",
                       {{"total", total},
                        {"cache", prompt.cached_tokens},
                        {"processed", total},
                        {"time_ms", time}}}});
    answer.tokens = std::move(tokens);
  }
  add_text(answer, answer.text.push(token.id));
  if (settings().stream && !answer.content.empty()) send_part(index);
  return !answer.text.stopped() && !answer.lines.ended() && !answer.late;
}

Json LlamaCppWriter::timings(size_t index) const {
  const Answer& answer = answers_[index];
  const PromptState& prompt = prompts_[prompt_number(index)];
  const bool any = answer.tokens_predicted > 0;
  const double prompt_ms = milliseconds((any ? answer.first_token : Clock::now()) - prompt.start);
  const double predicted_ms = any ? milliseconds(answer.last_token - answer.first_token) : 0.0;
  const auto prompt_n = static_cast<double>(std::ssize(prompt_of(index)) - prompt.cached_tokens);
  const auto predicted_n = static_cast<double>(answer.tokens_predicted);
  return {{"cache_n", prompt.cached_tokens},
          {"prompt_n", static_cast<int64_t>(prompt_n)},
          {"prompt_ms", prompt_ms},
          {"prompt_per_token_ms", ratio(prompt_ms, prompt_n)},
          {"prompt_per_second", ratio(1000.0 * prompt_n, prompt_ms)},
          {"predicted_n", answer.tokens_predicted},
          {"predicted_ms", predicted_ms},
          {"predicted_per_token_ms", ratio(predicted_ms, predicted_n)},
          {"predicted_per_second", ratio(1000.0 * predicted_n, predicted_ms)}};
}

// Returns an event's object with all that was not sent before.
Json LlamaCppWriter::part(size_t index) {
  Answer& answer = answers_[index];
  Json json = {{"index", index},
               {"content", std::exchange(answer.content, {})},
               {"tokens", std::exchange(answer.tokens, {})},
               {"stop", false},
               {"id_slot", own_.id_slot},
               {"tokens_predicted", answer.tokens_predicted},
               {"tokens_evaluated", prompt_of(index).size()}};
  if (own_.timings_per_token) json["timings"] = timings(index);
  if (!answer.probabilities.empty())
    json["completion_probabilities"] = std::exchange(answer.probabilities, Json::array());
  return json;
}

void LlamaCppWriter::send_part(size_t index, const Json& more) {
  Json json = part(index);
  json.update(more);
  sink().event(data_event(json));
}

// The probabilities are about the content, which does not have the stop word.
void LlamaCppWriter::drop_stop_word(Answer& answer) const {
  if (!answer.text.stopped()) return;
  const auto ids = tokenizer().encode(answer.text.stop(), {.add_special_tokens = false});
  const size_t excess = ids.ok() ? std::min(ids->size(), answer.probabilities.size()) : 0;
  for (size_t i = 0; i < excess; ++i) answer.probabilities.erase(answer.probabilities.size() - 1);
}

// Returns the object of an answer that has ended. In a stream, the content was sent before.
Json LlamaCppWriter::whole(size_t index, const End& end) {
  Answer& answer = answers_[index];
  const bool is_word = answer.text.stopped();
  const bool is_limit = end.reason == "length" || answer.lines.ended() || answer.late;
  const int64_t prompt_tokens = std::ssize(prompt_of(index));
  const int64_t cached = prompt_tokens + std::max<int64_t>(answer.tokens_predicted - 1, 0);
  drop_stop_word(answer);
  Json json = {{"index", index},
               {"content", std::exchange(answer.content, {})},
               {"tokens", std::exchange(answer.tokens, {})},
               {"id_slot", own_.id_slot},
               {"stop", true},
               {"model", settings().model},
               {"tokens_predicted", answer.tokens_predicted},
               {"tokens_evaluated", prompt_tokens},
               {"generation_settings", own_.generation_settings[prompt_number(index)]},
               {"prompt", own_.prompt_texts[prompt_number(index)]},
               {"has_new_line", answer.has_new_line},
               {"truncated", is_limit && !is_word && cached + 1 >= own_.context_tokens},
               {"stop_type", is_word    ? "word"
                             : is_limit ? "limit"
                                        : "eos"},
               {"stopping_word", is_word ? answer.text.stop() : ""},
               {"tokens_cached", cached},
               {"timings", timings(index)}};
  if (!answer.probabilities.empty())
    json["completion_probabilities"] = std::exchange(answer.probabilities, Json::array());
  if (own_.response_fields.empty()) return json;
  return chosen_fields(json, own_.response_fields);
}

void LlamaCppWriter::add_end(size_t index, const End& end) {
  Answer& answer = answers_[index];
  const std::string rest = answer.text.finish(end.stop_token);
  if (!answer.lines.ended()) add_text(answer, rest);
  if (settings().stream) {
    const bool has_part =
        !answer.content.empty() || !answer.tokens.empty() || !answer.probabilities.empty();
    if (has_part) send_part(index);
    sink().event(data_event(whole(index, end)));
  } else {
    answer.body = whole(index, end);
  }
}

void LlamaCppWriter::send_rest() {
  if (settings().stream) return;
  if (answers_.size() == 1) return sink().response(200, dump_json(answers_.front().body));
  Json list = Json::array();
  for (Answer& answer : answers_) list.push_back(std::move(answer.body));
  sink().response(200, dump_json(list));
}

std::string LlamaCppWriter::last_event(const ApiError& error) {
  return "data: " + llama_cpp_error_json(error) + "\n\n";
}

}  // namespace neuronmm::serve
