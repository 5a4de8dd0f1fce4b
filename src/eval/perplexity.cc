#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "model/token_logprobs.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

constexpr int64_t kPublishedContext = 2048;  // documented: GPTQ and SVD-LLM use it
// Tokens per forward call. Assumed: as fp32 their logits take 0.3 GB with Qwen's vocabulary of 152
// thousand.
constexpr int64_t kPieceTokens = 512;

// Returns the sum of one chunk's losses in nats. The caller, who knows the chunk's number,
// completes the error messages.
Result<double> chunk_loss(const model::Transformer& transformer, std::span<const TokenId> chunk,
                          ops::KvCache& cache) {
  cache.set_length(0);
  double sum = 0.0;
  const int64_t inputs = std::ssize(chunk) - 1;  // the last token is a target only
  cache.set_expected_tokens(inputs);
  for (int64_t first = 0; first < inputs; first += kPieceTokens) {
    if (interrupted()) return interrupted_error("");
    const int64_t count = std::min(kPieceTokens, inputs - first);
    model::SequenceTokens piece = {chunk.subspan(first, count), &cache,
                                   model::Transformer::Logits::kAll};
    for (int64_t i = 0; i < count; ++i) {
      piece.wanted.push_back({.all = false, .named = {chunk[first + i + 1]}, .log_sum = true});
    }
    const model::Predictions predictions = transformer.predict(std::span(&piece, 1));
    // Losses are computed in parallel but added in order, so that the sum does not depend on the
    // number of threads.
    std::vector<double> losses(count);
    parallel_for(count, [&](int64_t i) {
      losses[i] =
          -model::log_probability(predictions.row(i), chunk[first + i + 1], predictions.log_sum(i));
    });
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(losses[i])) return fail("position {}: {}", first + i + 1, losses[i]);
      sum += losses[i];
    }
  }
  return sum;
}

}  // namespace

int64_t default_context(const io::ModelConfig& config) {
  return std::min(kPublishedContext, config.max_position_embeddings);
}

Status check_chunks(const io::ModelConfig& config, std::span<const TokenId> tokens,
                    int64_t context) {
  if (context < 2 || context > config.max_position_embeddings) {
    return fail("context: expected 2 ... {} (the model's max_position_embeddings), found {}",
                config.max_position_embeddings, context);
  }
  if (std::ssize(tokens) < context) {
    return fail(
        "the text has {} tokens, fewer than the {} of one chunk: give a longer text or a smaller "
        "context",
        tokens.size(), context);
  }
  return model::check_token_ids(tokens, config);
}

// Prepares for whole pieces and for the last piece, which may be shorter.
Status prepare_chunks(const model::Transformer& transformer, int64_t context, int64_t piece) {
  const int64_t inputs = context - 1, last = inputs % piece;
  if (inputs >= piece) NMM_TRY(transformer.backend().prepare(piece));
  return last > 0 ? transformer.backend().prepare(last) : Status();
}

PerplexityReport report_of_chunks(std::span<const double> chunk_losses, int64_t context,
                                  int64_t tokens) {
  PerplexityReport report;
  report.context = context;
  report.tokens = tokens;
  report.chunks = std::ssize(chunk_losses);
  report.scored_tokens = report.chunks * (context - 1);
  std::vector<WindowSum> windows;
  for (const double loss : chunk_losses) windows.push_back({loss, context - 1});
  const Estimate mean = mean_over_windows(windows);
  report.perplexity = std::exp(mean.value);
  report.standard_error = report.perplexity * mean.standard_error;  // the derivative of exp is exp
  return report;
}

Result<PerplexityReport> perplexity(const model::Transformer& transformer,
                                    std::span<const TokenId> tokens, int64_t context,
                                    Progress& progress, DType dtype_of_cache) {
  NMM_TRY(check_chunks(transformer.config(), tokens, context));
  NMM_TRY(prepare_chunks(transformer, context, kPieceTokens));
  const int64_t chunks = std::ssize(tokens) / context;
  const double start = transformer.backend().clock_seconds();
  const auto cache = transformer.make_cache(context, dtype_of_cache);
  progress.start("measuring perplexity", chunks);
  std::vector<double> losses;
  const auto so_far = [&] {
    return report_of_chunks(losses, context, std::ssize(tokens)).perplexity;
  };
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const Result<double> result =
        chunk_loss(transformer, tokens.subspan(chunk * context, context), *cache);
    if (!result && result.error().kind == Error::Kind::kInterrupted) {
      const std::string value =
          chunk == 0 ? "" : fmt::format(", perplexity so far {:.6g}", so_far());
      return interrupted_error(fmt::format("{} of {} chunks done{}", chunk, chunks, value));
    }
    if (!result) {
      return fail("chunk {} of {} has a loss that is not finite: {}", chunk + 1, chunks,
                  result.error().message);
    }
    losses.push_back(*result);
    progress.update(chunk + 1, fmt::format("perplexity {:.4f}", so_far()));
  }
  progress.finish();
  PerplexityReport report = report_of_chunks(losses, context, std::ssize(tokens));
  report.device = transformer.backend().name();
  report.seconds = transformer.backend().clock_seconds() - start;
  return report;
}

}  // namespace neuronmm::eval
