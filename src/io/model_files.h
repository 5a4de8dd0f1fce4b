#pragma once
// Copies the files of a model folder that are not weights, and reads its config.json. Commands that
// write a changed model use both.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// Copies the files that belong to the model whatever becomes of its weights, unless `to` has them:
//   tokenizer and generation settings (tokenizer.json, tokenizer_config.json, vocab.json,
//   special_tokens_map.json, added_tokens.json, tekken.json, generation_config.json, merges.txt,
//   vocab.txt, vocab.bpe, *.model, *.tiktoken)
//   chat_template.jinja and licences
// Templates of additional_chat_templates go into the new tokenizer_config.json.
//
// Nothing that is executed is copied: no other files, no keys that name code (auto_map,
// custom_generate, ...), no file whose content is not what its name says, such as a pickle called
// tokenizer.model. Links are followed within the folder, and to the blobs of a Hugging Face cache.
// Returns a message for each file or key that is left out for such a reason.
Result<std::vector<std::string>> copy_model_files(const std::filesystem::path& from,
                                                  const std::filesystem::path& to);

// Returns the text of a config.json that goes into a new model folder, as strict JSON and without
// keys that name code. transformers notes the folder that a model was loaded from as
// "_name_or_path". If that is an absolute path, which says more of the machine than of the model,
// its last part takes its place.
Result<std::string> read_public_config(const std::filesystem::path& config_json);

}  // namespace neuronmm::io
