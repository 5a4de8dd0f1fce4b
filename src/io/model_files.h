#pragma once
// The files of a model folder that are neither weights nor config.json.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// Copies what goes with the weights whatever becomes of them, unless `to` has it: tokenizer and
// generation settings (*.json but an index of weights, merges.txt, vocab.*, *.model, *.tiktoken),
// chat templates (*.jinja), licences. Links to files are followed, as the Hugging Face cache needs.
// Pages that describe the dense model stay behind, and so do sub-folders and hidden files.
// Returned: what has such a name and is no file (a pipe, a link to nothing), each as a message.
Result<std::vector<std::string>> copy_model_files(const std::filesystem::path& from,
                                                  const std::filesystem::path& to);

}  // namespace neuronmm::io
