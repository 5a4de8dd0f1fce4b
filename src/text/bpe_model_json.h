#pragma once
// The BPE model of a tokenizer.json: its vocabulary, its merges and its options.

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/json_file.h"
#include "text/bpe_entries.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

// `fields`: {"type": "BPE", "byte_fallback": ..., ...} without its entries.
Status read_bpe_model(const io::JsonFields& fields, const BpeEntries& entries,
                      TokenizerDefinition& definition);

Status read_vocab(const BpeEntries& entries, const std::string& source, Vocabulary& vocabulary);
// merges.txt: a pair a line, after a first line that may be "#version: ...".
Status read_merges_text(std::string_view text, const std::string& source,
                        const Vocabulary& vocabulary, BpeModel& model);

// Whether every byte has a token, as byte_level.h spells it or as "<0x0A>": then no text can meet
// an unknown one.
bool has_all_bytes(const Vocabulary& vocabulary, bool spelled);

}  // namespace neuronmm::text
