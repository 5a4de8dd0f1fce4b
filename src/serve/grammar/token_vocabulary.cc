#include "serve/grammar/token_vocabulary.h"

#include <algorithm>
#include <utility>

#include "serve/grammar/token_mask.h"
#include "serve/grammar/token_symbols.h"
#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

bool is_plain(std::string_view text) {
  return text::valid_utf8_length(text) == std::ssize(text) &&
         std::ranges::all_of(text, [](char c) { return is_plain_byte(static_cast<uint8_t>(c)); });
}

std::vector<std::string> texts_of(const text::Tokenizer& tokenizer, int64_t size,
                                  std::span<const text::TokenId> special_tokens_with_text,
                                  const std::vector<text::TokenId>& stop_tokens) {
  const auto contains = [](const auto& ids, text::TokenId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  std::vector<std::string> texts(static_cast<size_t>(size));
  const auto last = static_cast<text::TokenId>(std::min(size, tokenizer.vocab_size()));
  for (text::TokenId id = 0; id < last; ++id) {
    const bool is_control = tokenizer.is_special(id) && !contains(special_tokens_with_text, id);
    if (is_control || contains(stop_tokens, id)) continue;
    texts[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  }
  return texts;
}

// Takes the text from tokens whose bytes are no UTF-8 and spell symbols (token_symbols.h).
std::vector<std::string> without_symbol_bytes(std::vector<std::string> texts) {
  for (std::string& text : texts) {
    if (has_symbol_bytes(text)) text.clear();
  }
  return texts;
}

TokenTrie trie_of(const std::vector<std::string>& texts, bool plain) {
  std::vector<std::pair<std::string, text::TokenId>> tokens;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (!texts[id].empty() && is_plain(texts[id]) == plain)
      tokens.emplace_back(texts[id], static_cast<text::TokenId>(id));
  }
  return TokenTrie(std::move(tokens), plain);
}

}  // namespace

TokenVocabulary::TokenVocabulary(const text::Tokenizer& tokenizer,
                                 const std::vector<text::TokenId>& stop_tokens, int64_t size,
                                 std::span<const text::TokenId> special_tokens_with_text)
    : TokenVocabulary(texts_of(tokenizer, size, special_tokens_with_text, stop_tokens),
                      stop_tokens) {}

TokenVocabulary::TokenVocabulary(std::vector<std::string> texts,
                                 std::vector<text::TokenId> stop_tokens)
    : texts_(without_symbol_bytes(std::move(texts))),
      stop_tokens_(std::move(stop_tokens)),
      plain_(trie_of(texts_, true)),
      others_(trie_of(texts_, false)),
      plain_mask_(mask_words()) {
  for (size_t id = 0; id < texts_.size(); ++id) {
    if (texts_[id].find('"') != std::string::npos)
      tokens_with_quote_.push_back(static_cast<text::TokenId>(id));
    if (texts_[id].size() == 1) {
      bytes_.set(static_cast<uint8_t>(texts_[id][0]));
      tokens_of_one_byte_.push_back(static_cast<text::TokenId>(id));
    }
    if (texts_[id].empty() || !is_plain(texts_[id])) continue;
    const auto token = static_cast<text::TokenId>(id);
    allow_token(plain_mask_, token);
    plain_lengths_.emplace_back(static_cast<size_t>(text::count_code_points(texts_[id])), token);
  }
  std::sort(plain_lengths_.begin(), plain_lengths_.end());
}

bool TokenVocabulary::is_stop(text::TokenId id) const {
  return std::find(stop_tokens_.begin(), stop_tokens_.end(), id) != stop_tokens_.end();
}

bool TokenVocabulary::allow_plain(Automaton& automaton, StateId state, std::span<uint64_t> mask,
                                  int64_t max_work) const {
  const int64_t before = automaton.work();
  const size_t longest = plain_lengths_.empty() ? 0 : plain_lengths_.back().first;
  size_t capacity = 0;  // the largest number of characters that can come, as far as it matters
  for (StateId at = state; capacity < longest; ++capacity) {
    const StateId after = automaton.state_after_any_plain_character(at);
    if (automaton.work() - before > max_work) return false;
    if (after == Automaton::kDead && (capacity == 0 || automaton.reads_plain_text(at)))
      return false;
    if (after == Automaton::kDead) break;
    if (after == at) capacity = longest - 1;
    at = after;
  }
  std::copy(plain_mask_.begin(), plain_mask_.end(), mask.begin());
  for (auto token = plain_lengths_.rbegin(); token != plain_lengths_.rend(); ++token) {
    if (token->first <= capacity) break;
    forbid_token(mask, token->second);
  }
  return true;
}

// Reads the tokens of one byte. Stops early if their steps take much work, but hardly before one of
// them can be read.
void TokenVocabulary::allow_bytes(Automaton& automaton, StateId state,
                                  std::span<uint64_t> mask) const {
  constexpr int64_t kMostSteps = 4;  // of the largest work each
  const int64_t before = automaton.work();
  bool any = false;
  for (const text::TokenId token : tokens_of_one_byte_) {
    const int64_t work = automaton.work() - before;
    if (work > (any ? 1 : kMostSteps) * Automaton::kMaxStepWork) return;
    const auto byte = static_cast<uint8_t>(text(token)[0]);
    if (automaton.step(state, byte) == Automaton::kDead) continue;
    allow_token(mask, token);
    any = true;
  }
}

int64_t TokenVocabulary::allow(Automaton& automaton, StateId state, std::span<uint64_t> mask,
                               Progress& progress, int64_t max_work) const {
  const int64_t before = automaton.work();
  if (!progress.has_bytes) {
    progress.has_plain = allow_plain(automaton, state, mask, max_work);
    allow_bytes(automaton, state, mask);
    progress.has_bytes = true;
  }
  int64_t work = automaton.work() - before;
  if (!progress.has_plain)
    work += plain_.allow(automaton, state, mask, progress.plain, max_work - work);
  return work + others_.allow(automaton, state, mask, progress.others, max_work - work);
}

// A walk visits all nodes at most. The steps that are not a node's are assumed.
int64_t TokenVocabulary::usual_work() const {
  constexpr int64_t kOtherWork = 1000;
  return kOtherWork + (plain_.nodes() + others_.nodes()) / TokenTrie::kNodesPerWork;
}

}  // namespace neuronmm::grammar
