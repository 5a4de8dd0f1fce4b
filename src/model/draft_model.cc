#include "model/draft_model.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/parallel.h"

namespace neuronmm::model {
namespace {

// The grade of a token is the number of these that the distance to the next best logit reaches.
constexpr std::array<float, kEvidenceGrades - 1> kMargins = {0.25f, 0.5f, 1.0f, 1.5f,
                                                             2.5f,  4.0f, 6.0f};
// The chances of these grades. Assumed; each text corrects them.
constexpr PriorChances kModelChances = {0.5, 0.6, 0.7, 0.8, 0.88, 0.95, 0.98, 0.995};
// The draft begins to read a text when the answer has a token for so many tokens to be read,
// divided by the number of texts that share the time of a step. Reading must pay through the rest
// of the answer, which is likely to be as long again. Assumed: the draft reads this many tokens in
// the time that it saves on a token of a single text.
constexpr int64_t kReadPerToken = 32;
// The largest number of unread tokens that do not count as reading: those of the step before.
constexpr int64_t kLatestTokens = kMostProposals + 1;

// Returns the grade of `token` among logits of which at least the two largest are known.
size_t grade_of(std::span<const float> logits, TokenId token) {
  constexpr size_t kLanes = 16;
  const auto chosen = static_cast<size_t>(token);
  std::array<float, kLanes> lanes;
  lanes.fill(std::numeric_limits<float>::lowest());
  const auto take = [&](size_t begin, size_t end) {
    const size_t whole = begin + (end - begin) / kLanes * kLanes;
    for (size_t i = begin; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
    for (size_t i = whole; i < end; ++i) lanes[0] = std::max(lanes[0], logits[i]);
  };
  take(0, chosen);
  take(chosen + 1, logits.size());
  const float margin = logits[chosen] - *std::ranges::max_element(lanes);
  return static_cast<size_t>(std::ranges::upper_bound(kMargins, margin) - kMargins.begin());
}

class OwnCache : public DraftCache {
 public:
  explicit OwnCache(const Transformer& transformer)
      : cache_(transformer.make_cache(transformer.config().max_position_embeddings)) {}
  ops::KvCache& cache() override { return *cache_; }
  bool prepare(std::span<const TokenId> /*tokens*/, int64_t /*positions*/) override {
    return true;  // attention lets the cache grow
  }

 private:
  const std::unique_ptr<ops::KvCache> cache_;
};

class OwnCaches : public DraftCaches {
 public:
  explicit OwnCaches(const Transformer& transformer) : transformer_(transformer) {}
  std::unique_ptr<DraftCache> make(const std::string& /*salt*/) override {
    if (kept_) return std::move(kept_);
    return std::make_unique<OwnCache>(transformer_);
  }
  void give_back(std::unique_ptr<DraftCache> cache) override { kept_ = std::move(cache); }

 private:
  const Transformer& transformer_;
  std::unique_ptr<DraftCache> kept_;
};

}  // namespace

void DraftCache::roll_back(std::span<const TokenId> tokens) {
  const size_t limit = std::min(held.size(), tokens.size() - 1);
  const auto differing = std::ranges::mismatch(std::span(held).first(limit), tokens).in1;
  held.resize(static_cast<size_t>(differing - std::span(held).begin()));
  cache().set_length(std::ssize(held));
}

std::unique_ptr<DraftCaches> make_draft_caches(const Transformer& transformer) {
  return std::make_unique<OwnCaches>(transformer);
}

class DraftModel::State : public DraftState {
 public:
  State(DraftCaches& caches, std::unique_ptr<DraftCache> cache)
      : DraftState(kModelChances), caches_(caches), cache_(std::move(cache)) {}
  ~State() override { caches_.give_back(std::move(cache_)); }
  DraftCache& cache() { return *cache_; }

 private:
  DraftCaches& caches_;
  std::unique_ptr<DraftCache> cache_;
};

// A task while it is computed.
struct DraftModel::Drafting {
  DraftTask* task;
  DraftCache* cache;
  // The sequence with its proposals. Null if only a part of the text is read.
  std::unique_ptr<Continuation> preview;
  std::vector<TokenId> input;     // the tokens of the next pass
  double reach = 1.0;             // the chance that all proposals so far are accepted
  ops::WantedLogits wanted = {};  // the logits that the model needs where this pass ends
  Result<Step> next = Step();     // what this pass proposes, and its grade
  size_t grade = 0;
};

DraftModel::DraftModel(const Transformer& transformer, std::unique_ptr<DraftCaches> caches,
                       int64_t vocabulary, int64_t chunk_tokens)
    : transformer_(transformer),
      caches_(std::move(caches)),
      vocabulary_(vocabulary),
      chunk_tokens_(chunk_tokens) {}

std::unique_ptr<DraftState> DraftModel::begin(const std::string& salt) {
  return std::make_unique<State>(*caches_, caches_->make(salt));
}

// Returns nothing if the sequence gets no proposals and reads nothing now.
std::optional<DraftModel::Drafting> DraftModel::prepare(DraftTask& task, int64_t texts,
                                                        int64_t& chunk_left) {
  DraftCache& cache = static_cast<State&>(*task.state).cache();
  const std::span<const TokenId> tokens = task.sequence->tokens();
  const int64_t length = std::ssize(tokens);
  // The last proposal is not computed.
  task.most = std::min(task.most, cache.cache().shape().capacity_tokens - length + 1);
  if (task.most <= 0) return std::nullopt;
  cache.roll_back(tokens);
  const bool has_room = cache.prepare(tokens, length + task.most - 1);
  const auto held = static_cast<size_t>(cache.cache().length());
  cache.held.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(held));
  if (!has_room) return std::nullopt;
  const int64_t unread = length - std::ssize(cache.held);
  if (unread * texts > kReadPerToken * std::ssize(task.sequence->generated())) return std::nullopt;
  int64_t count = unread;
  if (unread > kLatestTokens) {
    count = std::min(unread, chunk_left);
    chunk_left -= count;
  }
  if (count <= 0) return std::nullopt;
  const auto input = tokens.subspan(held, static_cast<size_t>(count));
  const int64_t known = transformer_.config().vocab_size;
  if (std::ranges::any_of(input, [&](TokenId id) { return id >= known; })) return std::nullopt;
  Drafting drafting = {&task, &cache, nullptr, {input.begin(), input.end()}};
  if (count < unread) return drafting;
  drafting.preview = task.sequence->preview();
  if (!drafting.preview) return std::nullopt;
  return drafting;
}

Status DraftModel::propose(std::vector<DraftTask>& tasks, const DraftPrices& prices) {
  std::vector<Drafting> drafting;
  int64_t chunk_left = chunk_tokens_;
  for (DraftTask& task : tasks) {
    if (task.most <= 0) continue;
    if (auto one = prepare(task, std::ssize(tasks), chunk_left))
      drafting.push_back(std::move(*one));
  }
  while (!drafting.empty()) {
    NMM_TRY(run_pass(drafting));
    for (const Drafting& one : drafting) NMM_TRY(one.next);
    std::vector<Drafting> going_on;
    for (Drafting& one : drafting) {
      if (adopt(one, prices)) going_on.push_back(std::move(one));
    }
    drafting = std::move(going_on);
  }
  return {};
}

Status DraftModel::run_pass(std::vector<Drafting>& drafting) {
  std::vector<SequenceTokens> batch;
  std::vector<Drafting*> choosing;
  int64_t rows = 0;
  for (Drafting& one : drafting) {
    rows += std::ssize(one.input);
    batch.push_back({one.input, &one.cache->cache(), Logits::kNone});
    if (!one.preview) continue;
    choosing.push_back(&one);
    one.wanted = one.preview->wanted();
    ops::WantedLogits own = one.wanted;
    own.log_sum = false;
    own.all = own.all || transformer_.config().vocab_size != vocabulary_;
    own.num_best = std::max<int64_t>(own.num_best, 2);  // for the grade
    batch.back().logits = Logits::kLast;
    batch.back().wanted = {std::move(own)};
  }
  const ops::Backend& backend = transformer_.backend();
  const double start = backend.clock_seconds();
  NMM_TRY(backend.prepare(rows));
  const Predictions predictions = transformer_.predict(batch);
  for (Drafting& one : drafting)
    one.cache->held.insert(one.cache->held.end(), one.input.begin(), one.input.end());
  parallel_for(std::ssize(choosing),
               [&](int64_t i) { choose(*choosing[static_cast<size_t>(i)], predictions.row(i)); });
  measure(backend.clock_seconds() - start, rows, std::ssize(choosing));
  return {};
}

// The vocabulary may be padded to other sizes in the two models. The rest of it is never proposed.
void DraftModel::choose(Drafting& drafting, std::span<const float> logits) const {
  std::vector<float> padded;
  if (std::ssize(logits) != vocabulary_) {
    padded.assign(static_cast<size_t>(vocabulary_), std::numeric_limits<float>::lowest());
    std::ranges::copy(logits.first(std::min(logits.size(), padded.size())), padded.begin());
    logits = padded;
  }
  drafting.next = drafting.preview->choose(logits);
  if (drafting.next.ok() && drafting.next->token)
    drafting.grade = grade_of(logits, *drafting.next->token);
}

// Passes that read more than the tokens of the step before do not count. Neither does the first
// one, which touches the weights for the first time.
void DraftModel::measure(double seconds, int64_t rows, int64_t proposals) {
  if (proposals == 0 || rows > 2 * proposals) return;
  if (!std::exchange(warm_, true)) return;
  passes_.record(proposals, seconds);
}

// Sequences that propose together share a pass, so the price of one alone would be too high.
std::optional<double> DraftModel::proposal_seconds(int64_t texts) const {
  if (passes_.empty()) return std::nullopt;
  return passes_.seconds(texts) / static_cast<double>(texts);
}

// Adds the token that the pass has chosen to the proposals if it pays to check it. Returns whether
// another one shall follow.
bool DraftModel::adopt(Drafting& drafting, const DraftPrices& prices) const {
  if (!drafting.preview) return false;
  DraftTask& task = *drafting.task;
  const Step& next = *drafting.next;
  const ProposalOdds& odds = task.state->odds;
  drafting.reach *= odds.chance(drafting.grade);
  const bool known = next.token && *next.token < transformer_.config().vocab_size;
  if (!known || (!task.trial && drafting.reach <= prices.check)) {
    if (!task.proposals.empty()) task.wanted.push_back(std::move(drafting.wanted));
    return false;
  }
  task.proposals.push_back({*next.token, drafting.grade});
  task.wanted.push_back(std::move(drafting.wanted));
  const bool pays = task.trial || drafting.reach * odds.mean_chance() > prices.check + prices.draft;
  if (pays && !next.stop && std::ssize(task.proposals) < task.most) {
    drafting.input = {*next.token};
    return true;
  }
  task.wanted.push_back(drafting.preview->wanted());
  return false;
}

}  // namespace neuronmm::model
