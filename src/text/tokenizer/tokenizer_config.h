#pragma once
// Reads tokenizer_config.json and its companions, which add to tokenizer.json the names of the
// special tokens, more added tokens, and the chat templates. Tokenizer::load is the caller.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/added_tokens.h"

namespace neuronmm::text {

// The contents of these files.
struct TokenizerConfig {
  // Maps "bos_token" to "<s>". The map includes the named tokens of extra_special_tokens
  // ("image_token").
  std::map<std::string, std::string, std::less<>> special_tokens;
  std::vector<AddedToken> added_tokens;  // The tokens of "added_tokens_decoder".
  // The special tokens, named or not, and those of added_tokens.json, in the order in which they
  // get ids if the tokenizer lacks them. Their ids here do not count.
  std::vector<AddedToken> tokens_to_add;
  // The chat templates by name. A template without a name is "default". Empty if the model has
  // none.
  std::map<std::string, std::string, std::less<>> chat_templates;
  // The model folder, for messages. Empty if the tokenizer was not loaded from one.
  std::string folder;

  std::optional<std::string> special_token(std::string_view name) const;
};

// Reads the files of a model folder; all of them may be absent. chat_template.jinja and
// additional_chat_templates/NAME.jinja replace the templates of tokenizer_config.json.
//
// As in transformers 5, special_tokens_map.json is ignored if tokenizer_config.json has
// "added_tokens_decoder". Otherwise it takes precedence over tokenizer_config.json for the standard
// tokens ("bos_token", "eos_token", ...) and for extra_special_tokens, but not for other fields
// "..._token". A token of extra_special_tokens takes precedence over a field of the same name.
Result<TokenizerConfig> load_tokenizer_config(const std::filesystem::path& folder);

}  // namespace neuronmm::text
