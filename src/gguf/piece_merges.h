#pragma once
// Computes the list of merges for SentencePiece vocabularies. SentencePiece's BPE has no such list:
// it joins the two neighbours whose joint piece has the best score. The list makes the tokenizers
// library do the same. tokenizer_files.cc is the caller.

#include <string_view>
#include <utility>
#include <vector>

#include "gguf/vocabulary.h"

namespace neuronmm::gguf {

// Returns all ways to make a piece of two pieces, the best score first. Equal scores are in the
// order of generate_merges in transformers' convert_slow_tokenizer.py. The results are views of the
// vocabulary's tokens.
std::vector<std::pair<std::string_view, std::string_view>> piece_merges(
    const Vocabulary& vocabulary);

}  // namespace neuronmm::gguf
