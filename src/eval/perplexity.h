#pragma once
// Perplexity by the convention of GPTQ and SVD-LLM, so that values can be compared with published
// ones. The text is encoded once, with the special tokens that its tokenizer adds. It is cut into
// floor(tokens / context) chunks that do not overlap, and the rest is dropped. Every chunk is a
// fresh context, and
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

// A perplexity and how it was measured.
struct PerplexityReport {
  std::string device;  // the backend's name
  double perplexity = 0.0;
  // The standard error of the perplexity, from the spread of the chunks' mean losses: how much the
  // value would differ for another text of the same kind. NaN with one chunk.
  double standard_error = 0.0;
  // Returns half the width of the 95 % interval, by Student's t.
  double half_interval() const { return interval_factor(chunks) * standard_error; }
  int64_t context = 0;
  int64_t tokens = 0;  // tokens of the whole text, including the dropped rest
  int64_t chunks = 0;
  int64_t scored_tokens = 0;  // chunks * (context - 1)
  // Time of the model and the losses on the backend's clock, without loading and encoding.
  double seconds = 0.0;
};

// Returns the published context of 2048, or max_position_embeddings if that is smaller.
int64_t default_context(const io::ModelConfig& config);

// Checks the input of perplexity(). Errors: a context outside 2 ... max_position_embeddings, fewer
// tokens than one chunk, ids outside the vocabulary.
Status check_chunks(const io::ModelConfig& config, std::span<const text::TokenId> tokens,
                    int64_t context);

// Lets a simulated device prepare its kernels for the sizes that will come: a chunk is computed in
// pieces of at most `piece` tokens.
Status prepare_chunks(const model::Transformer& transformer, int64_t context, int64_t piece);

// Makes the report of a text with `tokens` tokens from the sums of its chunks' losses, without time
// and device. The chunks are the samples of the standard error (interval.h).
PerplexityReport report_of_chunks(std::span<const double> chunk_losses, int64_t context,
                                  int64_t tokens);

// Measures the perplexity of a text. Errors: what check_chunks() finds, a loss that is NaN or
// infinite (with its chunk), an interrupt (with the perplexity so far). Keys and values are kept as
// `cache`. The default is fp32 whatever the model's dtype, so that perplexities do not depend on
// the rounding of keys and values unless that is what is measured.
Result<PerplexityReport> perplexity(const model::Transformer& transformer,
                                    std::span<const text::TokenId> tokens, int64_t context,
                                    Progress& progress, DType cache = DType::kF32);

}  // namespace neuronmm::eval
