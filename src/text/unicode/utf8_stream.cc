#include "text/unicode/utf8_stream.h"

#include "text/unicode/utf8.h"

namespace neuronmm::text {

// The bytes of an incomplete character are held until the rest comes. Bytes that no rest can
// complete become U+FFFD at once.
std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Step step = next_utf8(rest);
    if (step.kind == Utf8Step::Kind::kIncomplete) break;
    const auto length = static_cast<size_t>(step.length);
    text +=
        step.kind == Utf8Step::Kind::kCharacter ? rest.substr(0, length) : kReplacementCharacter;
    rest.remove_prefix(length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string Utf8Stream::finish() {
  const bool incomplete = !pending_.empty();
  pending_.clear();
  return std::string(incomplete ? kReplacementCharacter : "");
}

}  // namespace neuronmm::text
