#pragma once
// Makes tokenizer.json and its companions for the vocabulary of a GGUF file, in the form that the
// tokenizers library and transformers read. import.cc is the caller.

#include <string>

#include "gguf/vocabulary.h"
#include "io/mounted_model.h"

namespace neuronmm::gguf {

// Returns the text of tokenizer.json.
std::string tokenizer_json(const Vocabulary& vocabulary);
// Returns the same without the text of the vocabulary and of the merges. The tokens belong to
// `vocabulary`, which must outlive the result.
io::MountedTokenizer mounted_tokenizer(const Vocabulary& vocabulary);
// Returns the text of tokenizer_config.json. Its class is PreTrainedTokenizerFast, which takes
// tokenizer.json as it is. Other classes build their own pipeline from the flags in this file.
std::string tokenizer_config_json(const Vocabulary& vocabulary);
// Returns the text of generation_config.json with the ids of the begin, end and padding tokens. The
// result is empty if none is known.
std::string generation_config_json(const Vocabulary& vocabulary);

}  // namespace neuronmm::gguf
