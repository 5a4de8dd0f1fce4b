#pragma once
// Copies the files of a model folder that are not weights, and reads its config.json. Commands that
// write a changed model use both.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// Copies the files that belong to the model whatever becomes of its weights, unless `to` has them:
//   tokenizer and generation settings (*.json except an index of weights, merges.txt, vocab.*,
//   *.model, *.tiktoken)
//   chat templates (*.jinja) and licences
// Links to files are followed, as the Hugging Face cache needs. Pages that describe the dense
// model, sub-folders and hidden files are not copied. Returns a message for each name of this kind
// that is not a file (a pipe, a link to nothing).
Result<std::vector<std::string>> copy_model_files(const std::filesystem::path& from,
                                                  const std::filesystem::path& to);

// Returns the text of a config.json that goes into a new model folder. transformers notes the
// folder that a model was loaded from as "_name_or_path". If that is an absolute path, which says
// more of the machine than of the model, the last part of it takes its place.
Result<std::string> read_public_config(const std::filesystem::path& config_json);

}  // namespace neuronmm::io
