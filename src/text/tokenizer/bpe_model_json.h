#pragma once
// Reads the BPE model of a tokenizer.json or of GPT-2's two files: the vocabulary, the merges and
// the options. tokenizer_json.cc is the caller. Merges of unknown tokens and unknown options are
// errors.

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/json_file.h"
#include "text/tokenizer/bpe_entries.h"
#include "text/tokenizer/tokenizer_definition.h"

namespace neuronmm::text {

// Reads {"type": "BPE", "byte_fallback": ..., ...} in `fields`, whose vocabulary and merges are in
// `entries`.
Status read_bpe_model(const io::JsonFields& fields, const BpeEntries& entries,
                      TokenizerDefinition& definition);

// Adds all tokens of `entries` to the vocabulary. An empty list is an error.
Status read_vocab(const BpeEntries& entries, const std::string& source, Vocabulary& vocabulary);
// Reads merges.txt, which has one pair per line. The first line may be "#version: ...".
Status read_merges_text(std::string_view text, const std::string& source,
                        const Vocabulary& vocabulary, BpeModel& model);

// Returns true if every byte has a token. With `spelled`, tokens are written with the characters of
// byte_level.h, otherwise as "<0x0A>". A text then contains no unknown symbol.
bool has_all_bytes(const Vocabulary& vocabulary, bool spelled);

}  // namespace neuronmm::text
