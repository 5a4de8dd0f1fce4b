#pragma once
// What tokenizer_config.json and chat_template.jinja of a model folder add to tokenizer.json.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"

namespace neuronmm::text {

struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token;
  std::string chat_template;  // empty: none
};

// Both files may be absent. chat_template.jinja goes before the template in the other.
Result<TokenizerConfig> load_tokenizer_config(const std::filesystem::path& folder);

}  // namespace neuronmm::text
