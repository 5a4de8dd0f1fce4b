#include "model/ngram_draft.h"

#include <algorithm>

#include "base/parallel.h"

namespace neuronmm::model {
namespace {

// The chances of a token after a match of kLeastMatch, kLeastMatch + 1, ... tokens. Assumed; the
// text corrects them.
constexpr PriorChances kMatchChances = {0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.85, 0.9};

int64_t agreeing(std::span<const TokenId> tokens, size_t next) {
  const auto most = std::min(static_cast<int64_t>(next), kLongestMatch);
  int64_t length = 0;
  const size_t end = tokens.size();
  while (length < most && tokens[next - 1 - static_cast<size_t>(length)] ==
                              tokens[end - 1 - static_cast<size_t>(length)])
    ++length;
  return length;
}

}  // namespace

TextMatch find_match(std::span<const TokenId> tokens) {
  TextMatch best;
  for (size_t next = tokens.size(); next-- > kLeastMatch && best.length < kLongestMatch;) {
    const int64_t length = agreeing(tokens, next);
    if (length >= kLeastMatch && length > best.length) best = {next, length};
  }
  return best;
}

std::unique_ptr<DraftState> NgramDraft::begin(const std::string& /*salt*/) {
  return std::make_unique<DraftState>(kMatchChances);
}

Status NgramDraft::propose(std::vector<DraftTask>& tasks, const DraftPrices& prices) {
  parallel_for(std::ssize(tasks),
               [&](int64_t i) { propose_for(tasks[static_cast<size_t>(i)], prices); });
  return {};
}

// A text that repeats a short piece goes on with what was proposed so far.
void NgramDraft::propose_for(DraftTask& task, const DraftPrices& prices) const {
  if (task.most <= 0) return;
  const TextMatch match = find_match(task.sequence->tokens());
  if (match.length == 0) return;
  const std::unique_ptr<Continuation> preview = task.sequence->preview();
  if (!preview) return;
  double reach = 1.0;
  for (int64_t i = 0; i < task.most && !preview->ended(); ++i) {
    const TokenId token = preview->tokens()[match.next + static_cast<size_t>(i)];
    const auto grade = static_cast<size_t>(std::min(match.length + i, kLongestMatch) - kLeastMatch);
    reach *= task.state->odds.chance(grade);
    if (!task.trial && reach <= prices.check) break;
    ops::WantedLogits wanted = preview->wanted();
    if (!preview->follow(token, static_cast<size_t>(vocabulary_))) break;
    task.wanted.push_back(std::move(wanted));
    task.proposals.push_back({token, grade});
  }
  if (!task.proposals.empty()) task.wanted.push_back(preview->wanted());
}

}  // namespace neuronmm::model
