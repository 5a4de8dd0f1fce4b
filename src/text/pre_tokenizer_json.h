#pragma once
// The "pre_tokenizer" of a tokenizer.json.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

// `ends_spelled`: the last step is ByteLevel, and its spelling of bytes is left to be added, which
// is not needed where BPE works on bytes.
Status read_pre_tokenizer(const nlohmann::json& value, const std::string& source,
                          PreTokenizer& pre_tokenizer, bool& ends_spelled);
// GPT-2's: a ByteLevel that puts no space in front.
Status read_gpt2_pre_tokenizer(PreTokenizer& pre_tokenizer);

}  // namespace neuronmm::text
