#include "serve/output/output_detokenizer.h"

#include <algorithm>

namespace neuronmm::serve {
namespace {

// Number of tokens at the end of a prompt that are decoded before the answer continues it. A UTF-8
// character has at most four bytes, so no more than four tokens can belong to an unfinished
// character. The rest is a margin for decoders whose result depends on neighbouring tokens.
constexpr size_t kTokensBefore = 8;

}  // namespace

OutputDetokenizer::OutputDetokenizer(const text::Tokenizer& tokenizer,
                                     OutputDetokenizerOptions options)
    : tokenizer_(&tokenizer),
      options_(std::move(options)),
      decoder_(tokenizer, false),
      stops_(options_.stop) {}

void OutputDetokenizer::continue_after(std::span<const TokenId> prompt) {
  for (const TokenId id : prompt.last(std::min(prompt.size(), kTokensBefore))) (void)decoded(id);
}

std::string OutputDetokenizer::decoded(TokenId id) {
  const bool skipped = options_.skip_special_tokens && tokenizer_->is_special(id) &&
                       !options_.kept_tokens.contains(id);
  return skipped ? std::string() : decoder_.push(id);
}

std::string OutputDetokenizer::before_stop(std::string_view piece) {
  std::string text = stops_.push(piece);
  if (stops_.found() && options_.include_stop && !stop_sent_) {
    stop_sent_ = true;
    text += stops_.stop();
  }
  return text;
}

std::string OutputDetokenizer::push(TokenId id) {
  std::string piece = decoded(id);
  return ++tokens_ <= options_.min_tokens ? piece : before_stop(piece);
}

std::string OutputDetokenizer::finish(std::optional<TokenId> stop_token) {
  std::string piece;
  if (stop_token && options_.include_stop) piece = decoded(*stop_token);
  piece += decoder_.finish();
  std::string text = before_stop(piece);
  return text + stops_.finish();
}

}  // namespace neuronmm::serve
