#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode/character_class.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {
namespace {

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

bool is_word(std::optional<char32_t> code_point) {
  return code_point && is_word_character(*code_point);
}

uint64_t edge_key(uint32_t node, uint8_t byte) { return uint64_t{node} << 8 | byte; }

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  // The edges of all tokens, grouped by depth.
  std::vector<std::vector<uint64_t>> by_depth;
  for (int32_t token = 0; token < std::ssize(tokens_); ++token) {
    const std::string& content = tokens_[static_cast<size_t>(token)].content;
    if (by_depth.size() < content.size()) by_depth.resize(content.size());
    uint32_t node = 0;
    for (size_t depth = 0; depth < content.size(); ++depth) {
      const uint8_t byte = byte_at(content, content.size() - 1 - depth);
      const auto [edge, is_new] =
          edges_.try_emplace(edge_key(node, byte), static_cast<uint32_t>(nodes_.size()));
      if (is_new) {
        nodes_.emplace_back();
        by_depth[depth].push_back(edge->first);
        if (depth == 0) first_edges_[byte] = edge->second;
      }
      node = edge->second;
    }
    nodes_[node].token = token;
  }
  for (const auto& edges : by_depth) link_suffixes(edges);
}

// Links the nodes that these edges lead to. All shorter nodes must be linked already.
void AddedTokenMatcher::link_suffixes(std::span<const uint64_t> edges) {
  for (const uint64_t edge : edges) {
    const auto parent = static_cast<uint32_t>(edge >> 8);
    Node& node = nodes_[edges_.at(edge)];
    if (parent != 0) node.suffix = step(nodes_[parent].suffix, static_cast<uint8_t>(edge));
    if (node.token < 0) node.token = nodes_[node.suffix].token;
  }
}

uint32_t AddedTokenMatcher::next(uint32_t node, uint8_t byte) const {
  if (node == 0) return first_edges_[byte];
  const auto edge = edges_.find(edge_key(node, byte));
  return edge == edges_.end() ? 0 : edge->second;
}

// Follows suffix links until a node has an edge for the byte. A byte goes one step forward, and
// never more steps back than were made forward before, so that the average time per byte is
// constant.
uint32_t AddedTokenMatcher::step(uint32_t node, uint8_t byte) const {
  for (;; node = nodes_[node].suffix) {
    if (const uint32_t found = next(node, byte); found != 0 || node == 0) return found;
  }
}

// Returns the longest token at each position, from the end of the text to its beginning.
std::vector<AddedTokenMatcher::TokenStart> AddedTokenMatcher::longest_token_at_each_byte(
    std::string_view text, std::span<const ByteRange> literal) const {
  std::vector<TokenStart> starts;
  uint32_t node = 0;
  for (size_t i = text.size(); i-- > 0;) {
    while (!literal.empty() && literal.back().begin > i)
      literal = literal.first(literal.size() - 1);
    if (!literal.empty() && i < literal.back().end) {
      node = 0;
      continue;
    }
    node = step(node, byte_at(text, i));
    if (node != 0 && nodes_[node].token >= 0) starts.push_back({i, nodes_[node].token});
  }
  return starts;
}

std::vector<AddedTokenMatcher::Match> AddedTokenMatcher::find_all(
    std::string_view text, std::span<const ByteRange> literal) const {
  std::vector<Match> matches;
  if (tokens_.empty()) return matches;
  // The end of the last match, and the place where the next token may begin.
  size_t match_end = 0, search_from = 0;
  // The end of the white space after the last token that took it.
  size_t space_end = 0;
  const std::vector<TokenStart> starts = longest_token_at_each_byte(text, literal);
  for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
    if (start->begin < search_from) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(start->token)];
    const size_t end = start->begin + token.content.size();
    const std::string_view after = text.substr(end);
    search_from = end;
    if (token.single_word &&
        (is_word(last_character(text.substr(0, start->begin))) || is_word(first_character(after))))
      continue;
    Match match{start->begin, end, token.id};
    // If the last token took white space, this token may begin inside that space.
    if (token.lstrip) {
      const size_t free = start->begin - std::min(match_end, start->begin);
      match.begin = match_end + strip_right(text.substr(start->begin - free, free)).size();
    }
    // The end of a run of white space is kept, so that several tokens inside it walk through it
    // only once.
    if (token.rstrip) {
      if (end > space_end) space_end = text.size() - strip_left(after).size();
      match.end = space_end;
    }
    match_end = match.end;
    if (match.begin < match.end) matches.push_back(match);
  }
  return matches;
}

}  // namespace neuronmm::text
