#include "text/stream_decoder.h"

#include <utility>

#include "text/tokenizer/tokenizer.h"

namespace neuronmm::text {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {
  start();
}

void StreamDecoder::start() {
  if (const Decoder* decoder = tokenizer_->decoder()) run_.emplace(*decoder, true);
}

void StreamDecoder::continue_after(std::span<const TokenId> ids) {
  for (const TokenId id : ids) (void)push(id);
}

std::string StreamDecoder::push(TokenId id) {
  const auto piece = tokenizer_->piece(id, skip_special_tokens_);
  if (!piece) return "";
  if (!run_) return characters_.push(*piece);
  run_->push(*piece);
  return characters_.push(std::exchange(run_->out(), std::string()));
}

std::string StreamDecoder::finish() {
  std::string text;
  if (run_) {
    run_->finish();
    text = characters_.push(run_->out());
    start();
  }
  return text + characters_.finish();
}

}  // namespace neuronmm::text
