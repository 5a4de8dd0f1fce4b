#pragma once
// The steps around the BPE model in a tokenizer.json: normalizer, pre_tokenizer, post_processor and
// decoder. A step of a kind that we do not run is refused by its name.

#include "base/result.h"
#include "io/json_file.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

// `root`: the whole file. The definition's vocabulary is already read.
Status read_pipeline(const io::JsonFields& root, TokenizerDefinition& definition);

}  // namespace neuronmm::text
