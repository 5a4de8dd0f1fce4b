#include "serve/responses/logprob_json.h"

#include <algorithm>
#include <utility>

#include "text/unicode/utf8.h"
#include "text/unicode/utf8_stream.h"

namespace neuronmm::serve {
namespace {

std::string as_utf8(std::string_view bytes) {
  text::Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

Json token_json(const text::Tokenizer& tokenizer, const model::TokenLogprob& token) {
  const std::string text = tokenizer.decode_inside(token.id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", as_utf8(text)},
          {"logprob", finite_logprob(token.logprob)},
          {"bytes", std::move(bytes)}};
}

}  // namespace

double finite_logprob(double logprob) { return std::max(logprob, -9999.0); }

Json chat_logprob(const text::Tokenizer& tokenizer, const model::TokenLogprobs& logprobs) {
  Json json = token_json(tokenizer, logprobs.chosen);
  Json& top = json["top_logprobs"] = Json::array();
  for (const model::TokenLogprob& token : logprobs.top) top.push_back(token_json(tokenizer, token));
  return json;
}

void TextCompletionLogprobs::add(const text::Tokenizer& tokenizer, text::TokenId id,
                                 const std::optional<model::TokenLogprobs>& logprobs) {
  const auto text_of = [&](text::TokenId token) { return as_utf8(tokenizer.decode_inside(token)); };
  const std::string text = text_of(id);
  tokens_.push_back(text);
  text_offset_.push_back(offset_);
  offset_ += text::count_code_points(text);
  token_logprobs_.push_back(logprobs ? Json(finite_logprob(logprobs->chosen.logprob)) : Json());
  if (!logprobs) {
    top_logprobs_.push_back(nullptr);
    return;
  }
  // The most likely tokens and, if it is not among them, the token itself.
  Json top = Json::object();
  for (const model::TokenLogprob& token : logprobs->top)
    top.emplace(text_of(token.id), finite_logprob(token.logprob));
  top.emplace(text, finite_logprob(logprobs->chosen.logprob));
  top_logprobs_.push_back(std::move(top));
}

Json TextCompletionLogprobs::take() {
  return {{"text_offset", std::exchange(text_offset_, Json::array())},
          {"token_logprobs", std::exchange(token_logprobs_, Json::array())},
          {"tokens", std::exchange(tokens_, Json::array())},
          {"top_logprobs", std::exchange(top_logprobs_, Json::array())}};
}

}  // namespace neuronmm::serve
