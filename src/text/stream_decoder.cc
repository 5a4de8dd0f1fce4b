#include "text/stream_decoder.h"

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace neuronmm::text {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

// A character may be cut in two by the end of a token: its bytes are held until the rest comes.
// Bytes that no rest can complete become U+FFFD at once.
std::string StreamDecoder::push(TokenId id) {
  held_ += tokenizer_->decode({&id, 1}, skip_special_tokens_);
  std::string text;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Step step = next_utf8(rest);
    if (step.kind == Utf8Step::Kind::kIncomplete) break;
    const auto length = static_cast<size_t>(step.length);
    text +=
        step.kind == Utf8Step::Kind::kCharacter ? rest.substr(0, length) : kReplacementCharacter;
    rest.remove_prefix(length);
  }
  held_.erase(0, held_.size() - rest.size());
  return text;
}

// What is still incomplete at the end stays so.
std::string StreamDecoder::finish() {
  const bool incomplete = !held_.empty();
  held_.clear();
  return std::string(incomplete ? kReplacementCharacter : "");
}

}  // namespace neuronmm::text
