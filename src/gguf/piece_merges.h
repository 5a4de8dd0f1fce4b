#pragma once
// Computes the list of merges for SentencePiece vocabularies. SentencePiece's BPE has no such list:
// it joins the two neighbours whose joint piece has the best score. The list makes the tokenizers
// library do the same. tokenizer_files.cc is the caller.

#include <vector>

#include "gguf/vocabulary.h"

namespace neuronmm::gguf {

// Returns all ways to make a piece of two pieces, the best score first. Equal scores are in the
// order of generate_merges in transformers' convert_slow_tokenizer.py.
std::vector<Vocabulary::Merge> piece_merges(const Vocabulary& vocabulary);

}  // namespace neuronmm::gguf
