#include "model/generate.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"

namespace neuronmm::model {
namespace {

// Prompts run in pieces of at most so many tokens, several short ones in one piece: this bounds the
// memory of activations and lets Ctrl-C act between pieces; 512 rows are enough for a matrix
// product to run at its full speed.
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

Status check_biases(std::span<const LogitBias> biases, const io::ModelConfig& config) {
  for (const LogitBias& bias : biases) {
    if (bias.id < 0 || bias.id >= config.vocab_size)
      return fail("the bias of token {}: expected an id from 0 to {}", bias.id,
                  config.vocab_size - 1);
  }
  return {};
}

// A sequence so far, with what is needed to extend it by one token. The tokens that the cache lacks
// are those that still have to run: a prompt, or the last token made.
class Sequence {
 public:
  // `limit` new tokens fit the model's context. Without `kept` the sequence has a cache of its own.
  Sequence(const Transformer& transformer, std::span<const TokenId> prompt,
           const GenerateOptions& options, int64_t limit, uint64_t seed, PromptCache* kept)
      : options_(options),
        limit_(limit),
        prompt_length_(prompt.size()),
        tokens_(prompt.begin(), prompt.end()),
        own_cache_(kept ? nullptr : transformer.make_cache(std::ssize(prompt) + limit)),
        kept_(kept),
        cache_(kept ? &kept->reuse(prompt) : own_cache_.get()),
        sampler_(seeded(options.sampling, seed)) {
    generation_.reused_tokens = cache_->length();
  }

  bool done() const { return done_; }
  std::span<const TokenId> pending() const {  // tokens that the cache lacks
    return std::span(tokens_).subspan(static_cast<size_t>(cache_->length()));
  }
  bool prefilling() const { return pending().size() > 1 || generation_.tokens.empty(); }
  ops::KvCache& cache() { return *cache_; }

  // Takes the token that follows all tokens so far; nothing if that is a stop token.
  // A logit that is not finite would win every comparison or poison the softmax, and generate text
  // that looks merely odd; so it is an error.
  Result<std::optional<TokenId>> extend(std::span<const float> logits) {
    for (size_t id = 0; id < logits.size(); ++id) {
      if (std::isfinite(logits[id])) continue;
      return fail(
          "expected finite logits, found {} for token {} at position {}: the weights or "
          "their dtype are broken",
          logits[id], id, tokens_.size());
    }
    const std::span<const TokenId> all(tokens_);
    const TokenId token =
        sampler_.sample(logits, all.first(prompt_length_), all.subspan(prompt_length_));
    if (std::ranges::count(options_.stop_tokens, token) > 0) {
      finish(Generation::Stop::kStopToken);
      return std::optional<TokenId>();
    }
    tokens_.push_back(token);
    generation_.tokens.push_back(token);
    if (options_.logprobs)
      generation_.logprobs.push_back(token_logprobs(logits, token, *options_.logprobs));
    // Stopped by the room in the model's context or by what was asked for: the caller reports them
    // differently.
    if (std::ssize(generation_.tokens) == limit_) {
      finish(limit_ < options_.max_new_tokens ? Generation::Stop::kContextFull
                                              : Generation::Stop::kLimit);
    }
    return std::optional(token);
  }

  void finish(Generation::Stop stop) {
    generation_.stop = stop;
    done_ = true;
    if (kept_) kept_->remember(tokens_);
  }
  Generation& generation() { return generation_; }

 private:
  static SamplingOptions seeded(SamplingOptions sampling, uint64_t seed) {
    sampling.seed = seed;
    return sampling;
  }

  const GenerateOptions& options_;
  const int64_t limit_;
  const size_t prompt_length_;
  std::vector<TokenId> tokens_;
  std::unique_ptr<ops::KvCache> own_cache_;
  PromptCache* kept_;
  ops::KvCache* cache_;
  Sampler sampler_;
  Generation generation_;
  bool done_ = false;
};

// Runs a piece of the prompts as long as there are any, then one decode step after the other, until
// all sequences are done. Prefilling comes first, so that every decode step has as many sequences
// as possible to read the weights for.
class Run {
 public:
  Run(const Transformer& transformer, const std::function<bool(int64_t, TokenId)>& on_token)
      : transformer_(transformer), on_token_(on_token) {}

  Status add(std::span<const TokenId> prompt, const GenerateOptions& options, uint64_t seed,
             PromptCache* kept = nullptr) {
    const io::ModelConfig& config = transformer_.config();
    NMM_TRY(check_prompt(prompt, config));
    const int64_t room = config.max_position_embeddings - std::ssize(prompt);
    const int64_t limit = std::min(options.max_new_tokens, room);
    sequences_.emplace_back(transformer_, prompt, options, limit, seed, kept);
    // No room for a single token: done before it has begun.
    if (limit <= 0) sequences_.back().finish(Generation::Stop::kLimit);
    return {};
  }

  Result<std::vector<Generation>> all() {
    while (std::ranges::any_of(sequences_, [](const Sequence& s) { return !s.done(); })) {
      // Between steps only; what has been generated so far is a result.
      if (interrupted()) {
        for (Sequence& s : sequences_) {
          if (!s.done()) s.finish(Generation::Stop::kInterrupted);
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
  // One pass over the weights: as many tokens of unfinished prompts as fit, or the last token of
  // every sequence.
  Status step() {
    const double start = now();
    const bool prefilling = std::ranges::any_of(
        sequences_, [](const Sequence& s) { return !s.done() && s.prefilling(); });
    std::vector<SequenceTokens> batch;
    std::vector<size_t> members;
    int64_t room = prefilling ? kPrefillTokens : std::ssize(sequences_);
    for (size_t i = 0; i < sequences_.size() && room > 0; ++i) {
      Sequence& s = sequences_[i];
      if (s.done() || s.prefilling() != prefilling) continue;
      const int64_t count = std::min(std::ssize(s.pending()), room);
      batch.push_back({s.pending().first(static_cast<size_t>(count)), &s.cache()});
      members.push_back(i);
      room -= count;
    }
    // Only the last sequence of the batch can have more prompt to come.
    const bool any_complete =
        members.size() > 1 || batch[0].tokens.size() == sequences_[members[0]].pending().size();
    int64_t rows = 0;
    for (const SequenceTokens& sequence : batch) rows += std::ssize(sequence.tokens);
    // A simulated device chooses and times its kernels for this number of rows here, where it can
    // fail.
    NMM_TRY(transformer_.backend().prepare(rows));
    const Matrix logits = transformer_.forward(
        batch, any_complete ? Transformer::Logits::kLast : Transformer::Logits::kNone);
    // A sequence whose prompt is not finished has no next token yet; it is the last of the batch.
    for (size_t row = 0; row < members.size(); ++row) {
      if (!sequences_[members[row]].pending().empty()) break;
      NMM_TRY(extend(members[row], logits.view().row_range(static_cast<int64_t>(row), 1), start));
    }
    return {};
  }

  // Times are those of the backend's clock: wall time on the CPU, predicted time on a simulated
  // device.
  Status extend(size_t i, ConstMatrixView logits, double step_start) {
    Sequence& s = sequences_[i];
    const bool first = s.generation().tokens.empty();
    NMM_ASSIGN(const std::optional<TokenId> token,
               s.extend({logits.data, static_cast<size_t>(logits.columns)}));
    if (first) {
      s.generation().time_to_first_token_s = now() - start_;
    } else {
      s.generation().decode_latencies_s.push_back(now() - step_start);
    }
    const bool go_on = !token || !on_token_ || on_token_(static_cast<int64_t>(i), *token);
    if (!go_on) s.finish(Generation::Stop::kCaller);
    return {};
  }

  double now() const { return transformer_.backend().clock_seconds(); }

  const Transformer& transformer_;
  const std::function<bool(int64_t, TokenId)>& on_token_;
  const double start_ = now();
  std::vector<Sequence> sequences_;
};

}  // namespace

Result<Generation> generate(const Transformer& transformer, std::span<const TokenId> prompt,
                            const GenerateOptions& options,
                            const std::function<bool(TokenId)>& on_token, PromptCache* cache) {
  NMM_TRY(check_biases(options.sampling.logit_bias, transformer.config()));
  const std::function<bool(int64_t, TokenId)> on_any = [&](int64_t, TokenId token) {
    return !on_token || on_token(token);
  };
  Run run(transformer, on_any);
  NMM_TRY(run.add(prompt, options, options.sampling.seed, cache));
  NMM_ASSIGN(auto generations, run.all());
  return std::move(generations[0]);
}

Result<std::vector<Generation>> generate_batch(
    const Transformer& transformer, std::span<const std::vector<TokenId>> prompts,
    const GenerateOptions& options, const std::function<bool(int64_t, TokenId)>& on_token) {
  NMM_TRY(check_biases(options.sampling.logit_bias, transformer.config()));
  Run run(transformer, on_token);
  for (size_t i = 0; i < prompts.size(); ++i)
    NMM_TRY(run.add(prompts[i], options, options.sampling.seed + i));
  return run.all();
}

void apply(const io::GenerationConfig& generation_config, GenerateOptions& options) {
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
  if (generation_config.eos_token_ids) return *generation_config.eos_token_ids;
  return {config.eos_token_ids.begin(), config.eos_token_ids.end()};
}

}  // namespace neuronmm::model
