#include "text/bpe.h"

#include <algorithm>

namespace neuronmm::text {
namespace {

constexpr TokenId kNoToken = -1;

// For std::push_heap, whose top is the largest: lowest rank first, then leftmost.
bool comes_later(const Bpe::Workspace::Candidate& a, const Bpe::Workspace::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const MergeTable& merges, bool ignore_merges)
    : vocabulary_(vocabulary),
      merges_(merges),
      ignore_merges_(ignore_merges),
      // Most words of a text are tokens by themselves. Whether merging would also arrive at that
      // token is found out once per token and kept, since merges need not lead to every token.
      whole_(static_cast<size_t>(vocabulary.size())) {
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    byte_ids_[static_cast<size_t>(byte)] =
        vocabulary_.find_word({&character, 1}).value_or(kNoToken);
  }
}

void Bpe::encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const {
  const std::optional<TokenId> token = vocabulary_.find_word(word);
  if (!token) return merge(word, workspace, out);
  if (ignore_merges_) return out.push_back(*token);
  std::atomic<Whole>& whole = whole_[static_cast<size_t>(*token)];
  // Threads may find out the same at the same time; all of them write the same value.
  const Whole known = whole.load(std::memory_order_relaxed);
  if (known == Whole::kYes) return out.push_back(*token);
  const size_t before = out.size();
  merge(word, workspace, out);
  if (known == Whole::kUnknown) {
    const bool yes = out.size() == before + 1 && out.back() == *token;
    whole.store(yes ? Whole::kYes : Whole::kNo, std::memory_order_relaxed);
  }
}

void Bpe::encode_byte(char byte, std::vector<TokenId>& out) const {
  const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
  if (id != kNoToken) out.push_back(id);
}

// The pair of a symbol and its right neighbour, if the vocabulary merges it.
void Bpe::add_candidate(int64_t position, Workspace& workspace) const {
  const Workspace::Symbol& left = workspace.symbols[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const TokenId right = workspace.symbols[static_cast<size_t>(left.next)].id;
  const MergeTable::Merge* merge = merges_.find(left.id, right);
  if (merge == nullptr) return;
  workspace.candidates.push_back({merge->rank, left.id, right, merge->merged, position});
}

// Merges the pair of the lowest rank, the leftmost first, until no pair of neighbours is in the
// table. With a heap this takes n log n steps for n bytes; looking for the best pair anew each time
// would take n^2, minutes for a word of a megabyte.
void Bpe::merge(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const {
  auto& [symbols, candidates] = workspace;
  symbols.clear();
  candidates.clear();
  for (const char byte : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
    // A byte that is no token disappears, as in the reference.
    if (id == kNoToken) continue;
    const int64_t index = std::ssize(symbols);
    symbols.push_back({id, index - 1, index + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  for (int64_t i = 0; i + 1 < std::ssize(symbols); ++i) add_candidate(i, workspace);
  std::make_heap(candidates.begin(), candidates.end(), comes_later);

  // A merged symbol lives on at its left half's position; its right half's position is dead. What
  // was said in the heap about either is stale, which shows in their ids.
  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), comes_later);
    const Workspace::Candidate best = candidates.back();
    candidates.pop_back();
    Workspace::Symbol& left = symbols[static_cast<size_t>(best.position)];
    if (left.id != best.left || left.next < 0) continue;
    Workspace::Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != best.right) continue;
    left.id = best.merged;
    right.id = kNoToken;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.position;
    // The new symbol has new pairs with both neighbours.
    for (const int64_t position : {left.previous, best.position}) {
      const size_t before = candidates.size();
      if (position >= 0) add_candidate(position, workspace);
      if (candidates.size() > before)
        std::push_heap(candidates.begin(), candidates.end(), comes_later);
    }
  }
  for (int64_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    out.push_back(symbols[static_cast<size_t>(i)].id);
  }
}

}  // namespace neuronmm::text
