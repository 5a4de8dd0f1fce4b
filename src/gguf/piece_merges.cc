#include "gguf/piece_merges.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace neuronmm::gguf {
namespace {

struct Merge {
  std::string_view left, right;
  double score;
  size_t left_id, right_id;
  int64_t left_characters, right_characters;
};

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

int64_t characters(std::string_view text) { return std::ranges::count_if(text, begins_character); }

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> piece_merges(
    const Vocabulary& vocabulary) {
  // Bytes, control tokens and the like are not made of pieces.
  const auto is_piece = [&](size_t id) {
    const TokenKind kind = vocabulary.kinds[id];
    return kind == TokenKind::kNormal || kind == TokenKind::kUnused ||
           kind == TokenKind::kUndefined;
  };
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_piece(id)) ids.emplace(vocabulary.tokens[id], id);
  }
  std::vector<Merge> merges;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!is_piece(id)) continue;
    const std::string_view piece = vocabulary.tokens[id];
    const double score = vocabulary.scores.empty() ? 0.0 : vocabulary.scores[id];
    const auto first = std::ssize(merges);
    for (size_t at = 1; at < piece.size(); ++at) {
      if (!begins_character(piece[at])) continue;
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({left->first, right->first, score, left->second, right->second,
                        characters(left->first), characters(right->first)});
    }
    std::sort(merges.begin() + first, merges.end(), [](const Merge& a, const Merge& b) {
      return std::tie(a.left_id, a.right_id) < std::tie(b.left_id, b.right_id);
    });
  }
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left_characters, a.right_characters) >
           std::tie(b.score, b.left_characters, b.right_characters);
  });
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

}  // namespace neuronmm::gguf
