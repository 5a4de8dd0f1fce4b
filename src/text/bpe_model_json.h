#pragma once
// The BPE model of a tokenizer.json: its vocabulary and its merges.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

// `model`: {"type": "BPE", "vocab": {token: id}, "merges": ["a b" or ["a", "b"], ...], ...}.
Status read_bpe_model(const nlohmann::json& model, const std::string& source,
                      TokenizerDefinition& definition);

Status read_vocab(const nlohmann::json& vocab, const std::string& source, Vocabulary& vocabulary);
// merges.txt: a pair a line, after a first line that may be "#version: ...".
Result<MergeTable> read_merges_text(std::string_view text, const std::string& source,
                                    const Vocabulary& vocabulary);

}  // namespace neuronmm::text
