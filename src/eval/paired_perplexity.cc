#include "eval/paired_perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"
#include "base/printable.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

Error unfinished(int64_t done, int64_t chunks, std::span<const SequenceDivergence> sequences) {
  std::string so_far;
  if (done > 0) {
    const DivergenceSummary summary = summarize(sequences);
    so_far = fmt::format(", perplexity so far {:.6g}, KL {:.4g}", summary.perplexity,
                         summary.divergence.value);
  }
  return interrupted_error(fmt::format("{} of {} chunks done{}", done, chunks, so_far));
}

// Returns the sum of the other model's losses, or an error with the first position that has a value
// that is not finite.
Result<double> sum_of_losses(const SequenceDivergence& sequence) {
  double sum = 0.0;
  for (size_t i = 0; i < sequence.size(); ++i) {
    const TokenDivergence& token = sequence[i];
    if (!std::isfinite(token.dense_loss) || !std::isfinite(token.loss) ||
        !std::isfinite(token.divergence)) {
      return fail("position {}: {} (the reference: {}, KL {})", i + 1, token.loss, token.dense_loss,
                  token.divergence);
    }
    sum += token.loss;
  }
  return sum;
}

}  // namespace

Status check_same_tokens(const text::Tokenizer& dense, const std::string& dense_name,
                         const text::Tokenizer& other, const std::string& other_name,
                         std::string_view text) {
  if (dense.vocab_size() != other.vocab_size()) {
    return fail("expected two models of one tokenizer, found {} tokens in {} and {} in {}",
                dense.vocab_size(), dense_name, other.vocab_size(), other_name);
  }
  for (int64_t i = 0; i < dense.vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string a = dense.decode_inside(id), b = other.decode_inside(id);
    if (a == b) continue;
    return fail(
        "expected two models of one tokenizer, found token {}, \"{}\" in {} and \"{}\" in {}", id,
        printable(a), dense_name, printable(b), other_name);
  }
  NMM_ASSIGN(const auto a, dense.encode(text));
  NMM_ASSIGN(const auto b, other.encode(text));
  if (a == b) return {};
  const auto first_difference =
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  return fail(
      "expected two models of one tokenizer, found that {} and {} encode the text differently from "
      "token {} on",
      dense_name, other_name, first_difference);
}

Result<PairedPerplexity> paired_perplexity(const model::Transformer& dense,
                                           const model::Transformer& other,
                                           std::span<const TokenId> tokens, int64_t context,
                                           Progress& progress, DType cache) {
  NMM_TRY(check_chunks(other.config(), tokens, context));
  NMM_TRY(check_comparable(dense.config(), other.config(), context));
  NMM_TRY(prepare_chunks(other, context, kDivergencePiece));
  const int64_t chunks = std::ssize(tokens) / context;
  std::vector<SequenceDivergence> sequences;
  std::vector<double> losses;
  double seconds = 0.0;
  progress.start("comparing with the reference", chunks);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    auto sequence = sequence_divergence(dense, other, tokens.subspan(chunk * context, context),
                                        &seconds, cache);
    if (!sequence && sequence.error().kind == Error::Kind::kInterrupted) {
      return unfinished(chunk, chunks, sequences);
    }
    if (!sequence) return sequence.error();
    const Result<double> loss = sum_of_losses(*sequence);
    if (!loss) {
      return fail("chunk {} of {} has a loss that is not finite: {}", chunk + 1, chunks,
                  loss.error().message);
    }
    losses.push_back(*loss);
    sequences.push_back(std::move(sequence).value());
    progress.update(chunk + 1);
  }
  progress.finish();
  PairedPerplexity paired = {report_of_chunks(losses, context, std::ssize(tokens)),
                             summarize(sequences)};
  paired.report.device = other.backend().name();
  paired.report.seconds = seconds;
  return paired;
}

}  // namespace neuronmm::eval
