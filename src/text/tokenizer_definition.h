#pragma once
// What a tokenizer is, as its files say: the parts that Tokenizer runs one after the other.

#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace neuronmm::text {

struct TokenizerDefinition {
  Vocabulary vocabulary;  // the BPE model's tokens and the added ones
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::vector<TokenId> prefix, suffix;  // what the post-processor puts around a text
  Decoder decoder;
  bool decodes_bytes = false;  // the decoder is ByteLevel and nothing else
};

}  // namespace neuronmm::text
