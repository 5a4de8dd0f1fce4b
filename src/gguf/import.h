#pragma once
// A Hugging Face model folder from a GGUF file.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::gguf {

struct ImportSummary {
  std::string architecture;        // of the file; empty: it holds a vocabulary only
  std::string class_name;          // of config.json: "LlamaForCausalLM"
  int64_t parameters = 0;          // those of the model
  int64_t bytes_before = 0;        // of all files
  int64_t bytes_after = 0;         // of the weights
  bool tokenizer = false;          // the file has a vocabulary
  std::vector<std::string> files;  // that were read
  std::vector<std::string> notes;  // what was assumed or left out
};

// Writes `out` with the weights of `file` (or of all files that it was split into) in `dtype`, and
// its tokenizer; a file without tensors gives a folder with the tokenizer only. `force` replaces an
// existing model folder. Interrupted or failed, it leaves nothing behind. Errors: what the file
// does not say or says wrong, and by name all that io/model_config or the tokenizer could not run.
Result<ImportSummary> import_model(const std::filesystem::path& file,
                                   const std::filesystem::path& out, DType dtype, bool force,
                                   Progress& progress);

}  // namespace neuronmm::gguf
