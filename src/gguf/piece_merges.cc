#include "gguf/piece_merges.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "text/tokenizer/token_table.h"

namespace neuronmm::gguf {
namespace {

struct ScoredMerge {
  Vocabulary::Merge ids;
  double score;
  int64_t left_characters, right_characters;
};

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

int64_t characters(std::string_view text) { return std::ranges::count_if(text, begins_character); }

}  // namespace

std::vector<Vocabulary::Merge> piece_merges(const Vocabulary& vocabulary) {
  // Bytes, control tokens and the like are not made of pieces.
  const auto is_piece = [&](size_t id) {
    const TokenKind kind = vocabulary.kinds[id];
    return kind == TokenKind::kNormal || kind == TokenKind::kUnused ||
           kind == TokenKind::kUndefined;
  };
  text::TokenTable ids;
  ids.reserve(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_piece(id)) ids.insert(vocabulary.tokens[id], static_cast<text::TokenId>(id));
  }
  std::vector<ScoredMerge> merges;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!is_piece(id)) continue;
    const std::string_view piece = vocabulary.tokens[id];
    const double score = vocabulary.scores.empty() ? 0.0 : vocabulary.scores[id];
    const auto first = std::ssize(merges);
    for (size_t at = 1; at < piece.size(); ++at) {
      if (!begins_character(piece[at])) continue;
      const std::string_view left = piece.substr(0, at), right = piece.substr(at);
      const auto left_id = ids.find(left);
      if (!left_id) continue;
      const auto right_id = ids.find(right);
      if (!right_id) continue;
      merges.push_back({{*left_id, *right_id, static_cast<text::TokenId>(id)},
                        score,
                        characters(left),
                        characters(right)});
    }
    std::sort(merges.begin() + first, merges.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
      return std::tie(a.ids.left, a.ids.right) < std::tie(b.ids.left, b.ids.right);
    });
  }
  std::ranges::stable_sort(merges, [](const ScoredMerge& a, const ScoredMerge& b) {
    return std::tie(a.score, a.left_characters, a.right_characters) >
           std::tie(b.score, b.left_characters, b.right_characters);
  });
  std::vector<Vocabulary::Merge> ids_only;
  ids_only.reserve(merges.size());
  for (const ScoredMerge& merge : merges) ids_only.push_back(merge.ids);
  return ids_only;
}

}  // namespace neuronmm::gguf
