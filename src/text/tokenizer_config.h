#pragma once
// What the other files of a model folder add to tokenizer.json: tokenizer_config.json,
// special_tokens_map.json and chat_template.jinja.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"

namespace neuronmm::text {

struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token;
  std::vector<std::string> special_tokens;  // these two and all others that have a name
  std::vector<AddedToken> added_tokens;     // added_tokens_decoder
  std::string chat_template;                // empty: none
};

// All files may be absent. tokenizer_config.json goes before special_tokens_map.json, and
// chat_template.jinja before the template in the former.
Result<TokenizerConfig> load_tokenizer_config(const std::filesystem::path& folder);

}  // namespace neuronmm::text
