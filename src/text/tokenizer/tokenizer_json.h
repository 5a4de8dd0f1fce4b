#pragma once
// Reads tokenizer.json, the file of the Hugging Face tokenizers library, if its model is BPE.
// Tokenizer is the caller. Errors begin with `source` and name the field.

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/mounted_model.h"
#include "text/tokenizer/tokenizer_config.h"
#include "text/tokenizer/tokenizer_definition.h"

namespace neuronmm::text {

// Parses the text of a tokenizer.json. Parts that we do not run are errors.
Result<TokenizerDefinition> parse_tokenizer_json(std::string_view text, const std::string& source);

// Makes the same of a tokenizer whose vocabulary and merges are not JSON.
Result<TokenizerDefinition> parse_mounted_tokenizer(const io::MountedTokenizer& tokenizer,
                                                    const std::string& source);

// Adds the tokens that only tokenizer_config.json has.
Status add_tokens_of_config(const TokenizerConfig& config, const std::string& source,
                            TokenizerDefinition& definition);

}  // namespace neuronmm::text
