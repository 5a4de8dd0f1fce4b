#include "serve/protocol/sequence_breakers.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace neuronmm::serve {
namespace {

using text::TokenId;

// The limits of llama.cpp. They keep the search for breakers linear in the length of the text.
constexpr size_t kMostBreakerBytes = 40, kMostTailTokens = 20;

// Encodes the ends of one breaker, each only once.
class BreakerTails {
 public:
  BreakerTails(const text::Tokenizer& tokenizer, std::string_view breaker)
      : tokenizer_(tokenizer), breaker_(breaker) {}

  // Returns the tokens of the breaker without its first `length` bytes.
  const std::vector<TokenId>& after(size_t length) {
    const auto [place, is_new] = tails_.try_emplace(length);
    if (is_new) {
      auto ids = tokenizer_.encode(breaker_.substr(length),
                                   {.add_special_tokens = false, .parse_added_tokens = false});
      if (ids.ok()) place->second = *std::move(ids);
      if (place->second.size() > kMostTailTokens) place->second.resize(kMostTailTokens);
    }
    return place->second;
  }

 private:
  const text::Tokenizer& tokenizer_;
  const std::string_view breaker_;
  std::map<size_t, std::vector<TokenId>> tails_;
};

void add_tail(model::SequenceBreakers& all, TokenId head, const std::vector<TokenId>& tail) {
  auto& tails = all.tails_of_head[head];
  if (std::ranges::count(tails, tail) == 0) tails.push_back(tail);
}

// Adds the token if it contains the breaker, or ends with a beginning of it.
void add_head(model::SequenceBreakers& all, TokenId id, std::string_view token,
              std::string_view breaker, BreakerTails& tails) {
  if (token.find(breaker) != std::string_view::npos) return add_tail(all, id, {});
  const size_t most = std::min(token.size(), breaker.size() - 1);
  for (size_t length = 1; length <= most; ++length) {
    if (token.ends_with(breaker.substr(0, length))) add_tail(all, id, tails.after(length));
  }
}

}  // namespace

model::SequenceBreakers sequence_breakers(const text::Tokenizer& tokenizer,
                                          std::span<const std::string> texts) {
  model::SequenceBreakers all;
  std::vector<std::pair<std::string_view, BreakerTails>> breakers;
  for (const std::string& text : texts) {
    const auto breaker = std::string_view(text).substr(0, kMostBreakerBytes);
    if (!breaker.empty()) breakers.emplace_back(breaker, BreakerTails(tokenizer, breaker));
  }
  for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.vocab_size()); ++id) {
    const std::string token = tokenizer.token_bytes(id);
    for (auto& [breaker, tails] : breakers) add_head(all, id, token, breaker, tails);
  }
  return all;
}

std::shared_ptr<const model::SequenceBreakers> SequenceBreakerCache::get(
    const text::Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  const std::lock_guard lock(mutex_);
  if (!breakers_ || texts_ != texts) {
    breakers_ =
        std::make_shared<const model::SequenceBreakers>(sequence_breakers(tokenizer, texts));
    texts_ = texts;
  }
  return breakers_;
}

}  // namespace neuronmm::serve
