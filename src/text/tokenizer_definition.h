#pragma once
// What a tokenizer is, as its files say: the parts that Tokenizer runs one after the other.

#include <vector>

#include "text/added_tokens.h"
#include "text/merge_table.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace neuronmm::text {

struct TokenizerDefinition {
  Vocabulary vocabulary;  // the BPE model's tokens and the added ones
  MergeTable merges;
  bool ignore_merges = false;
  std::vector<AddedToken> added_tokens;
  bool nfc = false;
  PreTokenizer pre_tokenizer;
  std::vector<TokenId> prefix, suffix;  // what the post-processor puts around a text
};

}  // namespace neuronmm::text
