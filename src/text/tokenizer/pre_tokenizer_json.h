#pragma once
// Reads the "pre_tokenizer" of a tokenizer.json. tokenizer_json.cc is the caller. Unknown steps are
// errors.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer/tokenizer_definition.h"

namespace neuronmm::text {

// GPT-2's pattern, which ByteLevel uses if use_regex is true.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Sets `ends_spelled` if the last step is ByteLevel. The step that spells its bytes is then not
// added: the caller adds it unless BPE works on bytes.
Status read_pre_tokenizer(const nlohmann::json& value, const std::string& source,
                          PreTokenizer& pre_tokenizer, bool& ends_spelled);

}  // namespace neuronmm::text
