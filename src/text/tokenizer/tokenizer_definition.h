#pragma once
// A tokenizer as its files describe it. The readers of tokenizer.json fill in the parts, and
// Tokenizer runs them in order.

#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace neuronmm::text {

// The parts of a tokenizer.
struct TokenizerDefinition {
  // The tokens of the BPE model and the added tokens.
  Vocabulary vocabulary;
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  // The tokens that the post-processor puts around a text.
  std::vector<TokenId> prefix, suffix;
  Decoder decoder;
  // The decoder is a single ByteLevel step.
  bool decodes_bytes = false;
};

}  // namespace neuronmm::text
