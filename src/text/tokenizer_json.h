#pragma once
// tokenizer.json, the file of the Hugging Face tokenizers library, as far as BPE uses it.

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

Result<TokenizerDefinition> parse_tokenizer_json(std::string_view text, const std::string& source);

// GPT-2's two files, which say nothing of the steps around the model.
Result<TokenizerDefinition> parse_gpt2_files(std::string_view vocab_json,
                                             const std::string& vocab_source,
                                             std::string_view merges_text,
                                             const std::string& merges_source);

// The added tokens that only tokenizer_config.json has.
Status add_tokens_of_config(const TokenizerConfig& config, const std::string& source,
                            TokenizerDefinition& definition);

}  // namespace neuronmm::text
