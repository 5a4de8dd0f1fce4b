#pragma once
// Reads the BPE model of a tokenizer.json: the vocabulary, the merges and the options.
// tokenizer_json.cc is the caller. Merges of unknown tokens and wrong options are errors.

#include "base/result.h"
#include "io/json_file.h"
#include "text/tokenizer/bpe_entries.h"
#include "text/tokenizer/tokenizer_definition.h"

namespace neuronmm::text {

// Reads {"type": "BPE", "byte_fallback": ..., ...} in `fields`, whose vocabulary and merges are in
// `entries`.
Status read_bpe_model(const io::JsonFields& fields, const BpeEntries& entries,
                      TokenizerDefinition& definition);

// Returns true if every byte has a token. With `spelled`, tokens are written with the characters of
// byte_level.h, otherwise as "<0x0A>". A text then contains no unknown symbol.
bool has_all_bytes(const Vocabulary& vocabulary, bool spelled);

}  // namespace neuronmm::text
