#include "serve/grammar/token_masks.h"

#include <algorithm>
#include <utility>

#include "serve/grammar/token_mask.h"
#include "serve/grammar/token_symbols.h"

namespace neuronmm::grammar {

namespace {

// Steps of a budget per unit of Automaton::work(): 10 ns and 0.1 us.
constexpr int64_t kStepsPerWork = 10;
// The memory of an automaton's tables in bytes, for each position of its grammar. Assumed.
constexpr int64_t kTableBytesPerPosition = 10;

int64_t bytes_of(const Grammar& grammar) {
  return grammar.bytes() + grammar.positions() * kTableBytesPerPosition;
}

ByteSet readable_bytes(const Grammar& grammar, const TokenVocabulary& vocabulary) {
  const bool names_tokens = !grammar.named_tokens().empty();
  return names_tokens ? vocabulary.bytes() | symbol_bytes() : vocabulary.bytes();
}

}  // namespace

Result<std::shared_ptr<TokenMasks>> TokenMasks::make(
    CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary, int64_t max_bytes,
    Budget* budget) {
  Budget own;
  std::shared_ptr<TokenMasks> masks(
      new TokenMasks(std::move(grammar), std::move(vocabulary), max_bytes));
  NMM_TRY(masks->prepare(budget == nullptr ? own : *budget));
  return masks;
}

TokenMasks::TokenMasks(CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary,
                       int64_t max_bytes)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      max_bytes_(max_bytes),
      grammar_bytes_(bytes_of(grammar_.grammar)),
      automaton_(std::make_shared<Automaton>(grammar_.grammar,
                                             readable_bytes(grammar_.grammar, *vocabulary_))) {}

Status TokenMasks::prepare(Budget& budget) {
  if (automaton_->work() > Automaton::kMaxStepWork)
    return fail("too many alternatives may begin the answer: more than {} must be looked at",
                Automaton::kMaxStepWork);
  if (automaton_->empty())
    return fail("the grammar asks for bytes that no token of the vocabulary spells");
  Mask& mask = masks_[automaton_->start()];
  mask.words.resize(vocabulary_->mask_words());
  budget.spend(kStepsPerWork * allow_symbols(automaton_->start(), mask, vocabulary_->usual_work()));
  while (!vocabulary_->is_done(mask.progress)) {
    const int64_t bytes = automaton_->bytes();
    const int64_t work = vocabulary_->allow(*automaton_, automaton_->start(), mask.words,
                                            mask.progress, vocabulary_->usual_work());
    budget.allocate(automaton_->bytes() - bytes);
    if (!budget.spend(kStepsPerWork * work)) return budget.error();
  }
  update_bytes();
  return {};
}

TokenMasks::AnswerState TokenMasks::start() {
  const std::scoped_lock lock(mutex_);
  return {automaton_->start(), automaton_};
}

void TokenMasks::update_state(AnswerState& answer) {
  if (answer.automaton == automaton_) return;
  answer = {automaton_->adopt(*answer.automaton, answer.state), automaton_};
}

void TokenMasks::update_bytes() {
  const auto mask_bytes = static_cast<int64_t>(vocabulary_->mask_words() * sizeof(uint64_t));
  bytes_of_states_ = automaton_->bytes() + std::ssize(masks_) * mask_bytes;
}

void TokenMasks::clear_if_full() {
  update_bytes();
  if (bytes_of_states_ <= max_bytes_) return;
  automaton_ = automaton_->fresh();
  masks_.clear();
}

int64_t TokenMasks::allowed(AnswerState& answer, std::span<uint64_t> mask, int64_t max_work) {
  const std::scoped_lock lock(mutex_);
  clear_if_full();
  update_state(answer);
  const auto [found, is_new] = masks_.try_emplace(answer.state);
  auto& [words, progress, symbols] = found->second;
  if (is_new) words.resize(vocabulary_->mask_words());
  int64_t work = allow_symbols(answer.state, found->second, max_work);
  if (!vocabulary_->is_done(progress))
    work += vocabulary_->allow(*automaton_, answer.state, words, progress, max_work - work);
  const auto end = std::copy(words.begin(), words.end(), mask.begin());
  std::fill(end, mask.end(), 0);
  return work;
}

bool TokenMasks::names(text::TokenId token) const {
  return std::ranges::binary_search(grammar_.grammar.named_tokens(), token);
}

int64_t TokenMasks::allow_symbols(StateId state, Mask& mask, int64_t max_work) {
  constexpr int64_t kMostSteps = 4;  // of the largest work each, to find at least one
  const size_t named = grammar_.grammar.named_tokens().size();
  if (named == 0) return 0;
  const int64_t before = automaton_->work();
  for (bool any = false; mask.symbols <= named; ++mask.symbols) {
    const int64_t work = automaton_->work() - before;
    if (work > std::max(max_work, any ? 0 : kMostSteps * Automaton::kMaxStepWork)) return work;
    if (automaton_->step(state, symbol_text(mask.symbols)) == Automaton::kDead) continue;
    allow_tokens_of(mask.symbols, mask.words);
    any = true;
  }
  return automaton_->work() - before;
}

void TokenMasks::allow_tokens_of(size_t symbol, std::span<uint64_t> mask) const {
  const std::vector<text::TokenId>& named = grammar_.grammar.named_tokens();
  if (symbol > 0) return allow_token(mask, named[symbol - 1]);
  for (text::TokenId token = 0; token < vocabulary_->size(); ++token) {
    if (!vocabulary_->text(token).empty() && !std::ranges::binary_search(named, token))
      allow_token(mask, token);
  }
}

// A token may be read as its text and as a token.
StateId TokenMasks::step_over(const AnswerState& answer, text::TokenId token) const {
  Automaton& automaton = *answer.automaton;
  const std::string_view more = vocabulary_->text(token);
  const StateId after_text = more.empty() ? Automaton::kDead : automaton.step(answer.state, more);
  const std::vector<text::TokenId>& named = grammar_.grammar.named_tokens();
  if (named.empty()) return after_text;
  const auto found = std::ranges::lower_bound(named, token);
  const bool is_named = found != named.end() && *found == token;
  if (!is_named && more.empty()) return after_text;
  const size_t symbol = is_named ? 1 + static_cast<size_t>(found - named.begin()) : 0;
  return automaton.unite(after_text, automaton.step(answer.state, symbol_text(symbol)));
}

void TokenMasks::forbid_repeats(const AnswerState& answer, const UniqueStrings& strings,
                                std::span<uint64_t> mask) {
  const std::scoped_lock lock(mutex_);
  Automaton& automaton = *answer.automaton;
  for (const text::TokenId token : vocabulary_->tokens_with_quote()) {
    if (!is_allowed(mask, token)) continue;
    const std::string_view more = vocabulary_->text(token);
    const auto is_marked_unique = [&](size_t bytes) {
      return automaton.is_marked_unique(automaton.step(answer.state, more.substr(0, bytes)));
    };
    if (strings.would_repeat(more, is_marked_unique)) forbid_token(mask, token);
  }
}

void TokenMasks::advance(AnswerState& answer, text::TokenId token) {
  const std::scoped_lock lock(mutex_);
  answer.state = step_over(answer, token);
  NMM_CHECK(answer.state != Automaton::kDead);
}

bool TokenMasks::try_advance(AnswerState& answer, std::string_view more) {
  const std::scoped_lock lock(mutex_);
  answer.state = answer.automaton->step(answer.state, more);
  return answer.state != Automaton::kDead;
}

bool TokenMasks::is_complete(const AnswerState& answer) {
  const std::scoped_lock lock(mutex_);
  return answer.automaton->is_complete(answer.state);
}

bool TokenMasks::is_final(const AnswerState& answer) {
  const std::scoped_lock lock(mutex_);
  return answer.automaton->is_final(answer.state);
}

}  // namespace neuronmm::grammar
