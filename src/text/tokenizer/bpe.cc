#include "text/tokenizer/bpe.h"

#include <algorithm>

namespace neuronmm::text {
namespace {

constexpr TokenId kNoToken = -1;

// Orders candidates for std::push_heap, whose top is the largest element: the lowest rank comes
// first, then the leftmost position.
bool comes_later(const Bpe::Workspace::Candidate& a, const Bpe::Workspace::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const BpeModel& model, const SpelledBytes& spelled)
    : vocabulary_(vocabulary),
      alphabet_(vocabulary, model.alphabet),
      ignore_merges_(model.ignore_merges),
      merges_(std::ssize(model.merges)),
      borders_(model.merges, alphabet_.all()),
      // Most words of a text are tokens by themselves. Merging need not lead to every token, so the
      // encoder tries it once per token and keeps the answer.
      merges_to_one_token_(static_cast<size_t>(vocabulary.size())) {
  int32_t rank = 0;
  for (const auto& [left, right, merged] : model.merges)
    merges_.insert(left, right, {rank++, merged});
  index_words(spelled);
}

void Bpe::index_words(const SpelledBytes& spelled) {
  const bool bytes = alphabet_.options().bytes;
  if (bytes) words_.reserve(static_cast<size_t>(vocabulary_.size()));
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    if (!vocabulary_.is_token(id)) continue;
    const std::string_view word = bytes ? spelled.of(id) : vocabulary_.text(id);
    if (word.data() == nullptr) continue;
    if (bytes) words_.insert(word, id);
    longest_word_ = std::max(longest_word_, word.size());
  }
}

void Bpe::encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const {
  if (ignore_merges_ || alphabet_.has_no_affixes()) {
    const std::optional<TokenId> token = find_word(word);
    const auto merges_to_it = [&] {
      return merges_to_one_token_[static_cast<size_t>(*token)].load(std::memory_order_relaxed) ==
             MergesToOneToken::kYes;
    };
    if (token && (ignore_merges_ || merges_to_it())) return out.push_back(*token);
  }
  encode_symbols(word, workspace, out);
}

void Bpe::encode_byte(char byte, std::vector<TokenId>& out) const {
  if (const auto id = alphabet_.id_of_byte(byte)) out.push_back(*id);
}

void Bpe::encode_symbols(std::string_view word, Workspace& workspace,
                         std::vector<TokenId>& out) const {
  auto& symbols = workspace.symbols;
  symbols.clear();
  Run run;
  alphabet_.read(word, [&](const Alphabet::Symbol& symbol) {
    if (!symbols.empty() && borders_.is_border(symbols.back().id, symbol.id)) {
      encode_run(word, run, workspace, out);
      symbols.clear();
    }
    if (symbols.empty()) run = {symbol.begin, symbol.begin, true};
    run.end = symbol.end;
    run.known &= symbol.known;
    const int64_t index = std::ssize(symbols);
    symbols.push_back({symbol.id, index - 1, index + 1});
  });
  if (!symbols.empty()) encode_run(word, run, workspace, out);
}

void Bpe::encode_run(std::string_view word, const Run& run, Workspace& workspace,
                     std::vector<TokenId>& out) const {
  auto& symbols = workspace.symbols;
  if (symbols.size() == 1) return out.push_back(symbols.front().id);
  std::optional<TokenId> token;
  if (run.known) token = find_word(word.substr(run.begin, run.end - run.begin));
  const auto answer = [&]() -> std::atomic<MergesToOneToken>& {
    return merges_to_one_token_[static_cast<size_t>(*token)];
  };
  // Several threads may find the answer at once; all of them write the same value.
  const MergesToOneToken known =
      token ? answer().load(std::memory_order_relaxed) : MergesToOneToken::kNo;
  if (known == MergesToOneToken::kYes) return out.push_back(*token);
  symbols.back().next = -1;
  merge(workspace);
  const size_t before = out.size();
  for (int64_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    out.push_back(symbols[static_cast<size_t>(i)].id);
  }
  if (known == MergesToOneToken::kUnknown) {
    const bool yes = out.size() == before + 1 && out.back() == *token;
    answer().store(yes ? MergesToOneToken::kYes : MergesToOneToken::kNo, std::memory_order_relaxed);
  }
}

// Adds the pair of a symbol and its right neighbour, if the vocabulary merges it.
void Bpe::add_candidate(int64_t position, Workspace& workspace) const {
  const Workspace::Symbol& left = workspace.symbols[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const TokenId right = workspace.symbols[static_cast<size_t>(left.next)].id;
  const MergeTable::Merge* merge = merges_.find(left.id, right);
  if (merge == nullptr) return;
  workspace.candidates.push_back({merge->rank, left.id, right, merge->merged, position});
}

// Returns true if the candidate's pair no longer exists. A merged symbol keeps the position of its
// left half, and the position of its right half is dead. A candidate stays valid if the pair that
// is at its position would become the same token. The tokenizers library then merges the pair, too,
// even if that pair's own merge has another rank.
bool Bpe::is_stale(const Workspace::Candidate& candidate, const Workspace& workspace) const {
  const Workspace::Symbol& left = workspace.symbols[static_cast<size_t>(candidate.position)];
  if (left.id == kNoToken || left.next < 0) return true;
  const TokenId right = workspace.symbols[static_cast<size_t>(left.next)].id;
  if (left.id == candidate.left && right == candidate.right) return false;
  const MergeTable::Merge* merge = merges_.find(left.id, right);
  return merge == nullptr || merge->merged != candidate.merged;
}

// Merges the pair with the lowest rank, the leftmost first, until no adjacent pair is in the table.
// With a heap this takes n log n steps for n symbols. Searching for the best pair again each time
// would take n^2 steps, which are minutes for a word of a megabyte.
void Bpe::merge(Workspace& workspace) const {
  auto& [symbols, candidates] = workspace;
  candidates.clear();
  for (int64_t i = 0; i + 1 < std::ssize(symbols); ++i) add_candidate(i, workspace);
  std::make_heap(candidates.begin(), candidates.end(), comes_later);
  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), comes_later);
    const Workspace::Candidate best = candidates.back();
    candidates.pop_back();
    if (is_stale(best, workspace)) continue;
    Workspace::Symbol& left = symbols[static_cast<size_t>(best.position)];
    Workspace::Symbol& right = symbols[static_cast<size_t>(left.next)];
    left.id = best.merged;
    right.id = kNoToken;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.position;
    // The new symbol forms new pairs with both neighbours.
    for (const int64_t position : {left.previous, best.position}) {
      const size_t before = candidates.size();
      if (position >= 0) add_candidate(position, workspace);
      if (candidates.size() > before)
        std::push_heap(candidates.begin(), candidates.end(), comes_later);
    }
  }
}

}  // namespace neuronmm::text
