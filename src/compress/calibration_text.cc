#include "compress/calibration_text.h"

#include <algorithm>
#include <numeric>

#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

// Below ten tokens per dimension the held-out loss is more than 4 % above the optimum
// (synthetic activations, rank 64 of 160; real tokens, being correlated, need more).
constexpr int64_t kEnoughTokensPerDimension = 10;

using Tokens = std::vector<text::TokenId>;

// FNV-1a, 64 bits: names a text in metadata.
uint64_t text_hash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

// Equal shares of `total`, except that nobody gets more than there is of him.
std::vector<int64_t> even_shares(const std::vector<Tokens>& texts, int64_t total) {
  std::vector<size_t> shortest_first(texts.size());
  std::iota(shortest_first.begin(), shortest_first.end(), size_t{0});
  std::stable_sort(shortest_first.begin(), shortest_first.end(),
                   [&](size_t a, size_t b) { return texts[a].size() < texts[b].size(); });
  std::vector<int64_t> shares(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t text = shortest_first[i];
    const auto left = static_cast<int64_t>(texts.size() - i);
    shares[text] = std::min(static_cast<int64_t>(texts[text].size()), total / left);
    total -= shares[text];
  }
  return shares;
}

// Equal sequences of at most `longest` tokens, spread evenly over the text.
void add_sequences(const Tokens& tokens, int64_t share, int64_t longest,
                   std::vector<Tokens>& sequences) {
  if (share == 0) return;
  const int64_t count = (share + longest - 1) / longest, length = share / count;
  const int64_t available = static_cast<int64_t>(tokens.size()) / length;
  for (int64_t i = 0; i < count; ++i) {
    const auto first = tokens.begin() + (i * available / count) * length;
    sequences.emplace_back(first, first + length);
  }
}

}  // namespace

std::string joined_names(const std::vector<NamedText>& texts) {
  std::string names;
  for (const NamedText& text : texts) names += (names.empty() ? "" : ", ") + text.name;
  return names;
}

int64_t CalibrationSequences::longest() const {
  size_t longest = 0;
  for (const Tokens& sequence : sequences) longest = std::max(longest, sequence.size());
  return static_cast<int64_t>(longest);
}

Result<CalibrationSequences> calibration_sequences(const text::Tokenizer& tokenizer,
                                                   const std::vector<NamedText>& texts,
                                                   int64_t max_tokens,
                                                   const io::ModelConfig& config) {
  CalibrationSequences result;
  std::vector<Tokens> encoded;
  int64_t found = 0;
  for (const NamedText& text : texts) {
    auto tokens = tokenizer.encode(text.text);
    if (!tokens.ok()) return fail("{}: {}", text.name, tokens.error().message);
    encoded.push_back(std::move(tokens).value());
    const Status ids = model::check_token_ids(encoded.back(), config);
    if (!ids.ok()) return fail("{}: {}", text.name, ids.error().message);
    found += static_cast<int64_t>(encoded.back().size());
    result.origin.text += fmt::format("{}{} fnv1a:{:016x}", result.origin.text.empty() ? "" : ", ",
                                      text.name, text_hash(text.text));
  }
  const int64_t longest = std::min(kSequenceTokens, config.max_position_embeddings);
  const std::vector<int64_t> shares = even_shares(encoded, max_tokens);
  for (size_t i = 0; i < encoded.size(); ++i) {
    add_sequences(encoded[i], shares[i], longest, result.sequences);
  }
  int64_t& used = result.origin.tokens;
  for (const Tokens& sequence : result.sequences) used += static_cast<int64_t>(sequence.size());
  const int64_t enough = kEnoughTokensPerDimension * config.hidden_size;
  if (used < config.hidden_size) {
    return fail(
        "{}: expected at least {} calibration tokens (the model's hidden_size; {} are enough), "
        "found {} tokens and used {}",
        joined_names(texts), config.hidden_size, enough, found, used);
  }
  result.few = used < enough;
  return result;
}

}  // namespace neuronmm::compress
