#include "model/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "io/json_file.h"

namespace neuronmm::model {
namespace {

// Long prompts run in pieces, which bounds the memory of activations and lets Ctrl-C act between
// them; 512 rows are enough for a matrix product to run at its full speed.
constexpr int64_t kPrefillTokens = 512;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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

// The sequence so far, with what is needed to extend it by one token.
class Sequence {
 public:
  Sequence(const Transformer& transformer, std::span<const TokenId> prompt, int64_t capacity,
           const SamplingOptions& sampling)
      : transformer_(transformer),
        tokens_(prompt.begin(), prompt.end()),
        cache_(transformer.make_cache(capacity)),
        sampler_(sampling) {}

  // The next token after all tokens so far; nothing when interrupted before it was known.
  Result<std::optional<TokenId>> next() {
    Matrix logits;
    while (cache_->length() < static_cast<int64_t>(tokens_.size())) {
      if (interrupted()) return std::optional<TokenId>();
      const std::span<const TokenId> pending =
          std::span(tokens_).subspan(static_cast<size_t>(cache_->length()));
      const size_t count = std::min(pending.size(), static_cast<size_t>(kPrefillTokens));
      logits = transformer_.forward(pending.first(count), *cache_, Transformer::Logits::kLast);
    }
    const std::span<const float> last(logits.row(0), static_cast<size_t>(logits.columns()));
    for (size_t id = 0; id < last.size(); ++id) {
      if (std::isfinite(last[id])) continue;
      return fail(
          "expected finite logits, found {} for token {} at position {}: the weights or "
          "their dtype are broken",
          last[id], id, tokens_.size());
    }
    return std::optional(sampler_.sample(last, tokens_));
  }

  void append(TokenId token) { tokens_.push_back(token); }

 private:
  const Transformer& transformer_;
  std::vector<TokenId> tokens_;
  std::unique_ptr<ops::KvCache> cache_;
  Sampler sampler_;
};

Result<std::vector<TokenId>> token_ids(const nlohmann::json& eos, const io::JsonFields& fields) {
  std::vector<TokenId> tokens;
  for (const auto& id : eos.is_array() ? eos : nlohmann::json::array({eos})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<TokenId>::max())
      return fields.wrong("eos_token_id", "a token id or a list of them");
    tokens.push_back(id.get<TokenId>());
  }
  return tokens;
}

}  // namespace

Result<Generation> generate(const Transformer& transformer, std::span<const TokenId> prompt,
                            const GenerateOptions& options,
                            const std::function<void(TokenId)>& on_token) {
  const io::ModelConfig& config = transformer.config();
  NMM_TRY(check_prompt(prompt, config));
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  const int64_t room = config.max_position_embeddings - prompt_tokens;
  const int64_t limit = std::min(options.max_new_tokens, room);

  Generation generation;
  if (limit <= 0) return generation;
  Sequence sequence(transformer, prompt, prompt_tokens + limit, options.sampling);
  while (true) {
    const Clock::time_point start = Clock::now();
    NMM_ASSIGN(const std::optional<TokenId> token, sequence.next());
    if (!token) {
      generation.stop = Generation::Stop::kInterrupted;
      return generation;
    }
    if (generation.tokens.empty()) {
      generation.time_to_first_token_s = seconds_since(start);
    } else {
      generation.decode_latencies_s.push_back(seconds_since(start));
    }
    if (std::ranges::count(options.stop_tokens, *token) > 0) {
      generation.stop = Generation::Stop::kStopToken;
      return generation;
    }
    sequence.append(*token);
    generation.tokens.push_back(*token);
    if (on_token) on_token(*token);
    if (static_cast<int64_t>(generation.tokens.size()) == limit) {
      generation.stop = limit < options.max_new_tokens ? Generation::Stop::kContextFull
                                                       : Generation::Stop::kLimit;
      return generation;
    }
  }
}

Result<std::vector<TokenId>> stop_tokens_of(const std::filesystem::path& folder,
                                            const io::ModelConfig& config) {
  const std::filesystem::path path = folder / "generation_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    NMM_ASSIGN(const nlohmann::json json, io::read_json_object(path));
    const io::JsonFields fields(json, path.string());
    if (const nlohmann::json* eos = fields.find("eos_token_id")) return token_ids(*eos, fields);
  }
  return std::vector<TokenId>(config.eos_token_ids.begin(), config.eos_token_ids.end());
}

}  // namespace neuronmm::model
