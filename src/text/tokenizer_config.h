#pragma once
// What tokenizer_config.json and the files beside it add to tokenizer.json: the special tokens by
// their names, tokens that were added to the vocabulary, and the chat templates.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"

namespace neuronmm::text {

struct TokenizerConfig {
  // "bos_token" -> "<s>". Also those of extra_special_tokens that have names ("image_token").
  std::map<std::string, std::string, std::less<>> special_tokens;
  std::vector<AddedToken> added_tokens;  // added_tokens_decoder
  // By name; one without a name is "default". Empty: the model has none.
  std::map<std::string, std::string, std::less<>> chat_templates;

  std::optional<std::string> special_token(std::string_view name) const;
};

// All files may be absent. chat_template.jinja and additional_chat_templates/NAME.jinja go before
// the templates of tokenizer_config.json; that file goes before special_tokens_map.json.
Result<TokenizerConfig> load_tokenizer_config(const std::filesystem::path& folder);

}  // namespace neuronmm::text
