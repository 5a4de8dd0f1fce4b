#pragma once
// Copies the files of a model folder that are neither weights nor config.json. Commands that write
// a changed model use it.

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

}  // namespace neuronmm::io
