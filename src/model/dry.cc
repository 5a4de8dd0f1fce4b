#include "model/dry.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

namespace neuronmm::model {
namespace {

// The tokens of a text from its end: newest[0] is the last one.
using Newest = std::vector<TokenId>;

// Exponents up to this give penalties that a float holds, as in llama.cpp: log(FLT_MAX).
constexpr double kMostLog = 88.7228391;

const std::vector<std::vector<TokenId>>* tails_of(const DryOptions& options, TokenId head) {
  if (options.breakers == nullptr) return nullptr;
  const auto found = options.breakers->tails_of_head.find(head);
  return found == options.breakers->tails_of_head.end() ? nullptr : &found->second;
}

bool is_whole_breaker(const DryOptions& options, TokenId token) {
  const auto* tails = tails_of(options, token);
  return tails != nullptr && std::ranges::any_of(*tails, [](const auto& t) { return t.empty(); });
}

// Returns the length of the longest tail that follows the token newest[head], or nothing.
std::optional<size_t> longest_tail(const DryOptions& options, const Newest& newest, size_t head) {
  std::optional<size_t> longest;
  const auto* tails = tails_of(options, newest[head]);
  if (tails == nullptr) return longest;
  for (const std::vector<TokenId>& tail : *tails) {
    if (tail.size() > head || (longest && tail.size() <= *longest)) continue;
    const auto follows = newest.rend() - static_cast<std::ptrdiff_t>(head);
    if (std::equal(tail.begin(), tail.end(), follows)) longest = tail.size();
  }
  return longest;
}

// Returns how many of the newest tokens come after the last breaker.
size_t tokens_after_breaker(const DryOptions& options, const Newest& newest) {
  for (size_t i = 0; i < newest.size(); ++i) {
    if (const auto tail = longest_tail(options, newest, i)) return i - *tail;
  }
  return newest.size();
}

// Returns for each k how many tokens from newest[k] on equal those from newest[0] on (the Z
// algorithm: Gusfield, Algorithms on Strings, Trees and Sequences, section 1.3).
std::vector<size_t> repeated_lengths(const Newest& newest) {
  std::vector<size_t> lengths(newest.size(), 0);
  size_t box_begin = 0, box_end = 0;  // the tokens in between equal those from newest[0] on
  for (size_t k = 1; k < newest.size(); ++k) {
    size_t& length = lengths[k];
    if (k < box_end) length = std::min(box_end - k, lengths[k - box_begin]);
    while (k + length < newest.size() && newest[length] == newest[k + length]) ++length;
    if (k + length > box_end) {
      box_begin = k;
      box_end = k + length;
    }
  }
  return lengths;
}

}  // namespace

void penalise_repeated_sequences(std::span<double> logits, std::span<const TokenId> text,
                                 const DryOptions& options) {
  const auto size =
      options.last_n < 0 ? text.size() : std::min(text.size(), static_cast<size_t>(options.last_n));
  const auto allowed = static_cast<size_t>(options.allowed_length);
  if (!options.active() || size <= allowed) return;
  const Newest newest(text.rbegin(), text.rbegin() + static_cast<std::ptrdiff_t>(size));
  const size_t most = tokens_after_breaker(options, newest);
  if (most < allowed) return;
  std::unordered_map<TokenId, size_t> longest;
  const std::vector<size_t> lengths = repeated_lengths(newest);
  for (size_t k = 1; k < size; ++k) {
    const size_t length = std::min(lengths[k], most);
    if (length >= allowed) {
      size_t& known = longest[newest[k - 1]];
      known = std::max(known, length);
    }
  }
  const double log_base = std::log(options.base);
  const double most_exponent = log_base > 1e-6 ? std::floor(kMostLog / log_base) : HUGE_VAL;
  for (const auto& [token, length] : longest) {
    const auto id = static_cast<size_t>(token);
    if (id >= logits.size() || is_whole_breaker(options, token)) continue;
    const double exponent = std::min(static_cast<double>(length - allowed), most_exponent);
    logits[id] -= options.multiplier * std::pow(options.base, exponent);
  }
}

}  // namespace neuronmm::model
