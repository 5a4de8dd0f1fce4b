#pragma once
// Perplexity by the convention of GPTQ and SVD-LLM, so that figures compare with published ones:
// the text is encoded once (with the special tokens that its tokenizer adds), cut into
// floor(tokens / context) chunks that do not overlap, the tail is dropped, every chunk is a fresh
// context, and
//   perplexity = exp(sum of -log p(token i | tokens before it in its chunk), i = 1 ... context - 1,
//                    over chunks * (context - 1)).
// Chunks after the first begin without BOS.

#include <span>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "eval/interval.h"
#include "model/transformer.h"

namespace neuronmm::eval {

struct PerplexityReport {
  std::string device;  // the backend's name
  double perplexity = 0.0;
  // Of the perplexity, from the spread of the chunks' mean losses: how much another text of the
  // same kind would give another value. NaN with one chunk.
  double standard_error = 0.0;
  // Half of the 95 % interval, by Student's t.
  double half_interval() const { return interval_factor(chunks) * standard_error; }
  int64_t context = 0;
  int64_t tokens = 0;  // of the whole text, the dropped tail included
  int64_t chunks = 0;
  int64_t scored_tokens = 0;  // chunks * (context - 1)
  double seconds = 0.0;  // model and losses on the backend's clock, without loading and encoding
};

// The published 2048, or max_position_embeddings where that is less.
int64_t default_context(const io::ModelConfig& config);

// Chunks are the samples of the standard error (interval.h). What perplexity() finds wrong with its
// input: a context outside 2 ... max_position_embeddings, fewer tokens than one chunk, ids outside
// the vocabulary.
Status check_chunks(const io::ModelConfig& config, std::span<const text::TokenId> tokens,
                    int64_t context);

// A simulated device prepares its kernels for the sizes that will come: pieces of a chunk of at
// most `piece` tokens each.
Status prepare_chunks(const model::Transformer& transformer, int64_t context, int64_t piece);

// The report on `tokens` tokens whose chunks have these sums of losses, without time and device.
PerplexityReport report_of_chunks(std::span<const double> chunk_losses, int64_t context,
                                  int64_t tokens);

// Errors: what check_chunks finds, a loss that is NaN or infinite (with its chunk), an interrupt
// (with the perplexity so far).
Result<PerplexityReport> perplexity(const model::Transformer& transformer,
                                    std::span<const text::TokenId> tokens, int64_t context,
                                    Progress& progress);

}  // namespace neuronmm::eval
