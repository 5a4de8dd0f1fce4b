#pragma once
// Makes a Hugging Face model folder from a GGUF file, for `neuronmm import`.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "io/folder_writer.h"

namespace neuronmm::gguf {

// A token that ends a text or a turn.
struct EndToken {
  int64_t id = 0;
  std::string text;
};

// A summary of what an import read and wrote, for the command's report.
struct ImportSummary {
  // The architecture of the file. Empty if the file holds only a vocabulary.
  std::string architecture;
  // The class in config.json, for example "LlamaForCausalLM".
  std::string class_name;
  // The number of parameters of the model.
  int64_t parameters = 0;
  // The bytes of all files that were read.
  int64_t bytes_before = 0;
  // The bytes of the weights that were written.
  int64_t bytes_after = 0;
  // True if the file has a vocabulary.
  bool tokenizer = false;
  // The tokens at which generation stops, as they stand in generation_config.json.
  std::vector<EndToken> end_tokens;
  // The files that were read.
  std::vector<std::string> files;
  // Messages about what was assumed or left out.
  std::vector<std::string> notes;
};

// Writes `out` with the tokenizer and with the weights of `file` in `dtype`. If the model was split
// into several files, all of them are read. A file without tensors gives a folder with only a
// tokenizer. `force` replaces an existing model folder. If the import fails or is interrupted,
// nothing is left. Fails on missing or wrong information in the file, and on anything that
// io/model_config or the tokenizer cannot run, which the error names.
Result<ImportSummary> import_model(const std::filesystem::path& file,
                                   const std::filesystem::path& out, DType dtype, bool force,
                                   Progress& progress,
                                   const io::BeforeOutput<ImportSummary>& before_output = {});

}  // namespace neuronmm::gguf
