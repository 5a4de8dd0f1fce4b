#include "text/tokenizer/merge_borders.h"

#include <algorithm>
#include <utility>

namespace neuronmm::text {
namespace {

constexpr TokenId kNone = -1;
// The largest number of passes over the rules. The rules are in the order in which they were
// learned, after the rules that make their halves. One pass therefore finds everything, and a
// second pass that nothing is left.
constexpr int kMaxPasses = 8;

// The first and the last symbol of a token.
struct EndSymbols {
  TokenId first = kNone, last = kNone;
  bool operator==(const EndSymbols&) const = default;
};

// Returns the ends of every token, by id. The result is empty if a token has several first or last
// symbols, or if the search takes too many passes.
std::vector<EndSymbols> end_symbols_of_tokens(std::span<const MergeBorders::Rule> rules,
                                              std::span<const TokenId> symbols) {
  TokenId largest = 0;
  for (const TokenId symbol : symbols) largest = std::max(largest, symbol);
  for (const auto& rule : rules) largest = std::max({largest, rule.left, rule.right, rule.merged});
  std::vector<EndSymbols> ends(static_cast<size_t>(largest) + 1);
  for (const TokenId symbol : symbols) ends[static_cast<size_t>(symbol)] = {symbol, symbol};
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    bool changed = false;
    for (const auto& rule : rules) {
      const EndSymbols merged = {ends[static_cast<size_t>(rule.left)].first,
                                 ends[static_cast<size_t>(rule.right)].last};
      if (merged.first == kNone || merged.last == kNone) continue;
      EndSymbols& known = ends[static_cast<size_t>(rule.merged)];
      if (known == merged) continue;
      if (known != EndSymbols{}) return {};
      known = merged;
      changed = true;
    }
    if (!changed) return ends;
  }
  return {};
}

}  // namespace

MergeBorders::MergeBorders(std::span<const Rule> rules, std::span<const TokenId> symbols) {
  const std::vector<EndSymbols> ends = end_symbols_of_tokens(rules, symbols);
  if (ends.empty()) return;
  std::vector<std::pair<TokenId, TokenId>> pairs;
  for (const Rule& rule : rules) {
    const TokenId left = ends[static_cast<size_t>(rule.left)].last;
    const TokenId right = ends[static_cast<size_t>(rule.right)].first;
    if (left != kNone && right != kNone) pairs.emplace_back(left, right);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  neighbours_ = MergeTable(std::ssize(pairs));
  for (const auto& [left, right] : pairs) neighbours_.insert(left, right, {});
  known_ = true;
}

}  // namespace neuronmm::text
