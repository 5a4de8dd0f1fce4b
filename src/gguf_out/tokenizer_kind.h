#pragma once
// Finds out which of llama.cpp's two kinds of tokenizers a tokenizer.json is, from the steps around
// its BPE model. vocabulary_out.cc is the caller.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "gguf/pre_tokenizers.h"

namespace neuronmm::gguf_out {

struct TokenizerKind {
  // The rules for cutting words; null for SentencePiece.
  const gguf::PreTokenization* pre = nullptr;
  // SentencePiece only: puts a space before a text.
  bool add_space_prefix = false;
  // Says what llama.cpp does in another way, or nothing.
  std::string note = {};
};

// `root` is the parsed tokenizer.json, perhaps without its tokens and merges. Messages begin with
// `source`. Fails if a step is not known to llama.cpp.
Result<TokenizerKind> tokenizer_kind(const nlohmann::json& root, const std::string& source);

}  // namespace neuronmm::gguf_out
