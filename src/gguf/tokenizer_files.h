#pragma once
// tokenizer.json and its companions for the vocabulary of a GGUF file, as the tokenizers library
// and transformers read them.

#include <string>

#include "gguf/vocabulary.h"

namespace neuronmm::gguf {

std::string tokenizer_json(const Vocabulary& vocabulary);
// Of class PreTrainedTokenizerFast, which takes tokenizer.json as it is: others build a pipeline of
// their own from the flags here.
std::string tokenizer_config_json(const Vocabulary& vocabulary);
// The ids that a text begins, ends and is filled up with; empty if none is known.
std::string generation_config_json(const Vocabulary& vocabulary);

}  // namespace neuronmm::gguf
