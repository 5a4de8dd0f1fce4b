#include "model/generate.h"

#include <algorithm>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "model/end_tokens.h"

namespace neuronmm::model {
namespace {

// The largest number of prompt tokens in one pass; several short prompts share a pass. The bound
// limits the memory of activations and lets Ctrl-C act between passes. Assumed: with 512 rows a
// matrix product reaches its full speed.
constexpr int64_t kPrefillTokens = 512;

Status check_prompt(std::span<const TokenId> prompt, const io::ModelConfig& config) {
  if (prompt.empty()) return fail("the prompt is empty: expected at least one token");
  if (static_cast<int64_t>(prompt.size()) >= config.max_position_embeddings) {
    return fail(
        "the prompt has {} tokens and leaves no room for an answer: expected fewer than {} "
        "(max_position_embeddings)",
        prompt.size(), config.max_position_embeddings);
  }
  return check_token_ids(prompt, config);
}

// A sequence and the cache with the keys and values of its tokens. Tokens that the cache lacks are
// pending: they still have to run. At first these are the prompt's, later the last token made.
class Sequence {
 public:
  // `room` is the number of new tokens that fit into the model's context. If `kept` is null, the
  // sequence makes a cache of its own.
  Sequence(const Transformer& transformer, std::span<const TokenId> prompt,
           const GenerateOptions& options, int64_t room, PromptCache* kept)
      : transformer_(transformer),
        continuation_({prompt.begin(), prompt.end()}, options, room),
        own_cache_(kept ? nullptr
                        : transformer.make_cache(std::ssize(prompt) + continuation_.limit())),
        kept_(kept),
        cache_(kept ? &kept->reuse(prompt) : own_cache_.get()) {
    generation_.reused_tokens = cache_->length();
    cache_->set_expected_tokens(std::ssize(prompt));
    // If not a single token fits, the sequence is done before it has begun.
    if (continuation_.limit() <= 0) finish(Stop::kLimit);
  }

  bool done() const { return done_; }
  std::span<const TokenId> pending() const {  // tokens that the cache lacks
    return continuation_.tokens().subspan(static_cast<size_t>(cache_->length()));
  }
  bool prefilling() const { return pending().size() > 1 || generation_.tokens.empty(); }
  ops::KvCache& cache() { return *cache_; }

  // Returns which logits the next call of extend() needs.
  ops::WantedLogits wanted() const { return continuation_.wanted(); }
  // Chooses the tokens that follow all tokens so far. `row` follows the last of them, and later
  // rows the proposals. The cache forgets the proposals that were not chosen.
  Extension extend(const Predictions& predictions, int64_t row) {
    const int64_t length = std::ssize(continuation_.tokens());
    Extension extension = model::extend(continuation_, predictions, row, draft_.proposals);
    cache_->set_length(length + extension.accepted);
    return extension;
  }
  // Takes a step of extend() into the answer.
  void take(Step step) {
    if (step.token) generation_.tokens.push_back(*step.token);
    if (step.logprobs) generation_.logprobs.push_back(std::move(*step.logprobs));
    if (step.stop) finish(*step.stop);
  }

  // Returns what a draft is asked for.
  DraftTask draft_task(Speculation& speculation) {
    if (!draft_state_) draft_state_ = speculation.begin();
    const int64_t left = continuation_.limit() - std::ssize(generation_.tokens);
    const int64_t alike = same_rope_tokens(transformer_.config(), cache_->length()) - 1;
    return {&continuation_, draft_state_.get(), draft_state_ ? std::min(left - 1, alike) : 0};
  }
  // Sets the proposals that the next pass checks. The pending token comes before them.
  void set_draft(DraftTask draft) {
    draft_ = std::move(draft);
    checked_.assign(pending().begin(), pending().end());
    for (const Proposal& proposal : draft_.proposals) checked_.push_back(proposal.token);
  }
  const DraftTask& draft() const { return draft_; }
  // Returns the input of a decode call.
  SequenceTokens decode_input() {
    if (draft_.proposals.empty()) return {pending(), cache_, Logits::kLast, {wanted()}};
    return {checked_, cache_, Logits::kAll, draft_.wanted};
  }

  void finish(Stop stop) {
    generation_.stop = stop;
    done_ = true;
    if (kept_) kept_->remember(continuation_.tokens());
  }
  Generation& generation() { return generation_; }

 private:
  const Transformer& transformer_;
  Continuation continuation_;
  std::unique_ptr<ops::KvCache> own_cache_;
  PromptCache* kept_;
  ops::KvCache* cache_;
  std::unique_ptr<DraftState> draft_state_;  // null without a draft
  DraftTask draft_;                          // what the current decode call checks
  std::vector<TokenId> checked_;
  Generation generation_;
  bool done_ = false;
};

// Generates all answers of one call. While any prompt is unfinished it runs passes over prompts,
// then decode steps, until all sequences are done. Prefilling comes first so that every decode step
// reads the weights for as many sequences as possible.
class Run {
 public:
  Run(const Transformer& transformer, const std::function<bool(int64_t, TokenId)>& on_token,
      Speculation* speculation)
      : transformer_(transformer), on_token_(on_token), speculation_(speculation) {}

  Status add(std::span<const TokenId> prompt, GenerateOptions options, uint64_t seed,
             PromptCache* kept = nullptr) {
    const io::ModelConfig& config = transformer_.config();
    NMM_TRY(check_prompt(prompt, config));
    const int64_t room = config.max_position_embeddings - std::ssize(prompt);
    options.sampling.seed = seed;
    sequences_.emplace_back(transformer_, prompt, options, room, kept);
    return {};
  }

  Result<std::vector<Generation>> all() {
    while (std::ranges::any_of(sequences_, [](const Sequence& s) { return !s.done(); })) {
      // An interrupt takes effect between steps, and what has been generated so far is a result.
      if (interrupted()) {
        for (Sequence& s : sequences_) {
          if (!s.done()) s.finish(Stop::kInterrupted);
        }
      } else {
        NMM_TRY(step());
      }
    }
    std::vector<Generation> generations;
    for (Sequence& s : sequences_) generations.push_back(std::move(s.generation()));
    return generations;
  }

 private:
  // Runs one pass over the weights, with as many tokens of unfinished prompts as fit, or with the
  // last token of every sequence and the proposals that follow it.
  Status step() {
    const double start = now();
    const bool prefilling = std::ranges::any_of(
        sequences_, [](const Sequence& s) { return !s.done() && s.prefilling(); });
    std::vector<SequenceTokens> batch;
    // Sequences with all pending tokens in this batch, which get next tokens.
    std::vector<Extended> complete;
    if (prefilling) {
      plan_prefill(batch, complete);
    } else {
      plan_decode(batch, complete);
    }
    int64_t rows = 0;
    for (const SequenceTokens& tokens : batch) rows += std::ssize(tokens.tokens);
    // A simulated device chooses and times its kernels for this number of rows here, where an error
    // can be returned.
    const double pass_start = now();
    NMM_TRY(transformer_.backend().prepare(rows));
    const Predictions predictions = transformer_.predict(batch);
    parallel_for(std::ssize(complete), [&](int64_t i) {
      Extended& one = complete[static_cast<size_t>(i)];
      one.extension = sequences_[one.sequence].extend(predictions, one.first_row);
    });
    if (!prefilling) record(complete, rows, now() - pass_start);
    for (Extended& one : complete) NMM_TRY(tell(one, start));
    return {};
  }

  // A sequence that gets tokens from the rows of logits that begin here.
  struct Extended {
    size_t sequence;
    int64_t first_row;
    Extension extension = {};
  };

  void plan_prefill(std::vector<SequenceTokens>& batch, std::vector<Extended>& complete) {
    int64_t rows = 0;
    for (size_t i = 0; i < sequences_.size() && rows < kPrefillTokens; ++i) {
      Sequence& s = sequences_[i];
      if (s.done() || !s.prefilling()) continue;
      const auto tokens = s.pending().first(
          std::min(s.pending().size(), static_cast<size_t>(kPrefillTokens - rows)));
      const bool all = tokens.size() == s.pending().size();
      batch.push_back({tokens, &s.cache(), all ? Logits::kLast : Logits::kNone});
      if (all) batch.back().wanted = {s.wanted()};
      if (all) complete.push_back({i, std::ssize(complete)});
      rows += std::ssize(tokens);
    }
  }

  void plan_decode(std::vector<SequenceTokens>& batch, std::vector<Extended>& complete) {
    int64_t row = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (!sequences_[i].done()) complete.push_back({i, 0});
    }
    if (speculation_ != nullptr) propose(complete);
    for (Extended& one : complete) {
      Sequence& s = sequences_[one.sequence];
      one.first_row = row;
      batch.push_back(s.decode_input());
      row += std::ssize(batch.back().tokens);
    }
  }

  void propose(const std::vector<Extended>& decoding) {
    std::vector<DraftTask> tasks;
    for (const Extended& one : decoding)
      tasks.push_back(sequences_[one.sequence].draft_task(*speculation_));
    speculation_->propose(tasks);
    for (size_t i = 0; i < tasks.size(); ++i)
      sequences_[decoding[i].sequence].set_draft(std::move(tasks[i]));
  }

  // Records what a decode call made of the proposals.
  void record(const std::vector<Extended>& decoded, int64_t rows, double seconds) {
    if (speculation_ == nullptr) return;
    int64_t tokens = 0;
    for (const Extended& one : decoded) {
      Sequence& s = sequences_[one.sequence];
      const DraftTask& draft = s.draft();
      speculation_->record(draft, one.extension.accepted);
      if (!draft.proposals.empty())
        s.generation().draft.add({1, std::ssize(draft.proposals), one.extension.accepted});
      tokens += std::ssize(one.extension.steps);
    }
    speculation_->record_step(rows, tokens, seconds);
  }

  // Records how long the step took and tells the caller the tokens. Times come from the backend's
  // clock: wall time on the CPU, predicted time on a simulated device.
  Status tell(Extended& one, double step_start) {
    Sequence& s = sequences_[one.sequence];
    const double seconds = now() - step_start;
    const auto steps = static_cast<double>(one.extension.steps.size());
    for (Result<Step>& made : one.extension.steps) {
      NMM_ASSIGN(Step step, std::move(made));
      const std::optional<TokenId> token = step.token;
      s.take(std::move(step));
      const bool first = s.generation().tokens.size() == (token ? 1 : 0);
      if (first) {
        s.generation().time_to_first_token_s = now() - start_;
      } else {
        s.generation().decode_latencies_s.push_back(seconds / steps);
      }
      const bool go_on =
          !token || !on_token_ || on_token_(static_cast<int64_t>(one.sequence), *token);
      if (go_on) continue;
      s.finish(Stop::kCaller);
      break;  // the rest was chosen in vain
    }
    return {};
  }

  double now() const { return transformer_.backend().clock_seconds(); }

  const Transformer& transformer_;
  const std::function<bool(int64_t, TokenId)>& on_token_;
  Speculation* const speculation_;
  const double start_ = now();
  std::vector<Sequence> sequences_;
};

}  // namespace

Result<Generation> generate(const Transformer& transformer, std::span<const TokenId> prompt,
                            const GenerateOptions& options,
                            const std::function<bool(TokenId)>& on_token, PromptCache* cache,
                            Speculation* speculation) {
  NMM_TRY(check_biases(options.sampling.logit_bias, transformer.config().vocab_size));
  const std::function<bool(int64_t, TokenId)> on_any = [&](int64_t, TokenId token) {
    return !on_token || on_token(token);
  };
  Run run(transformer, on_any, speculation);
  NMM_TRY(run.add(prompt, options, options.sampling.seed, cache));
  NMM_ASSIGN(auto generations, run.all());
  return std::move(generations[0]);
}

Result<std::vector<Generation>> generate_batch(
    const Transformer& transformer, std::span<const std::vector<TokenId>> prompts,
    const GenerateOptions& options, const std::function<bool(int64_t, TokenId)>& on_token,
    Speculation* speculation) {
  NMM_TRY(check_biases(options.sampling.logit_bias, transformer.config().vocab_size));
  Run run(transformer, on_token, speculation);
  for (size_t i = 0; i < prompts.size(); ++i)
    NMM_TRY(run.add(prompts[i], options, options.sampling.seed + i));
  return run.all();
}

void apply_generation_config(const io::GenerationConfig& generation_config,
                             GenerateOptions& options) {
  const io::GenerationConfig& from = generation_config;
  SamplingOptions& sampling = options.sampling;
  if (from.do_sample.value_or(false)) {
    sampling.temperature = from.temperature.value_or(1.0);
  } else if (from.do_sample || from.temperature) {
    sampling.temperature = 0.0;
  }
  sampling.top_k = from.top_k.value_or(sampling.top_k);
  sampling.top_p = from.top_p.value_or(sampling.top_p);
  sampling.min_p = from.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = from.repetition_penalty.value_or(sampling.repetition_penalty);
  options.max_new_tokens = from.max_new_tokens.value_or(options.max_new_tokens);
}

std::vector<TokenId> stop_tokens_of(const io::GenerationConfig& generation_config,
                                    const io::ModelConfig& config) {
  std::vector<TokenId> stops(config.eos_token_ids.begin(), config.eos_token_ids.end());
  if (generation_config.eos_token_ids) stops = *generation_config.eos_token_ids;
  // The model never writes other ids.
  std::erase_if(stops, [&](TokenId id) { return id >= config.vocab_size; });
  return stops;
}

std::vector<TokenId> stop_tokens_of(const io::GenerationConfig& generation_config,
                                    const io::ModelConfig& config,
                                    const text::Tokenizer& tokenizer) {
  std::vector<TokenId> stops = stop_tokens_of(generation_config, config);
  if (!stops.empty() || generation_config.eos_token_ids) return stops;
  const auto add = [&](int64_t id) {
    const bool known = std::ranges::find(stops, id) != stops.end();
    if (!known && id < config.vocab_size) stops.push_back(static_cast<TokenId>(id));
  };
  if (tokenizer.eos_id()) add(*tokenizer.eos_id());
  const auto find = [&](std::string_view text) -> std::optional<int64_t> {
    const auto id = tokenizer.token_to_id(text);
    return id && tokenizer.is_special(*id) ? id : std::nullopt;
  };
  for (const int64_t id : recognized_end_tokens(find)) add(id);
  return stops;
}

}  // namespace neuronmm::model
