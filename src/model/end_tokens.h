#pragma once
// Recognizes the tokens that end a text or a turn by their texts, for vocabularies whose files do
// not list them all. GGUF files name one such token. The import writes the others into
// generation_config.json, and stop_tokens_of() uses them for folders without any list.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace neuronmm::model {

// Returns the id of a token by its text, or nothing if the vocabulary has no such token or uses it
// for ordinary text.
using FindToken = std::function<std::optional<int64_t>(std::string_view text)>;

// Returns the ids of the tokens that llama.cpp recognizes as ends (llama-vocab.cpp,
// special_eog_ids), each once. They include the tokens between the files of code models, after
// which another file would begin. "<|end|>" is left out if it only ends a channel, as in gpt-oss.
std::vector<int64_t> recognized_end_tokens(const FindToken& find);

}  // namespace neuronmm::model
