#pragma once
// SentencePiece's BPE has no list of merges: it joins the two neighbours whose joint piece has the
// best score. The list that does the same in the tokenizers library.

#include <string_view>
#include <utility>
#include <vector>

#include "gguf/vocabulary.h"

namespace neuronmm::gguf {

// Every way to make a piece of two, the best score first; of one score in the order of
// transformers' convert_slow_tokenizer.py (generate_merges). Views of the vocabulary's tokens.
std::vector<std::pair<std::string_view, std::string_view>> piece_merges(
    const Vocabulary& vocabulary);

}  // namespace neuronmm::gguf
