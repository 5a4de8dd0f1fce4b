#include "serve/grammar/matcher.h"

namespace neuronmm::grammar {

void Matcher::allowed_tokens(std::span<uint64_t> allowed) {
  masks_->allowed(answer_, text_, allowed);
  if (masks_->has_unique_strings()) masks_->forbid_repeats(answer_, text_, strings_, allowed);
  if (!is_complete()) return;
  for (const text::TokenId stop : masks_->vocabulary().stop_tokens()) {
    const auto id = static_cast<uint32_t>(stop);
    allowed[id / 64] |= uint64_t{1} << (id % 64);
  }
}

void Matcher::advance(text::TokenId token) {
  if (masks_->vocabulary().is_stop(token)) {
    ended_ = true;
    return;
  }
  const std::string_view more = masks_->vocabulary().text(token);
  masks_->advance(answer_, text_, more);
  if (masks_->has_unique_strings()) strings_.push(more);
  text_ += more;
}

bool Matcher::must_end() const { return ended_ || masks_->is_final(answer_, text_); }

}  // namespace neuronmm::grammar
