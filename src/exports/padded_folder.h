#pragma once
// Writes a model as a plain folder of its published class, for programs that know neither
// layers of different sizes nor factors, pivots or weights of few bits: vLLM, and transformers
// without custom code. Matrices are multiplied out, and every MLP or expert is filled with neurons
// of zeros up to the size of the largest one, which changes no output. `neuronmm export --target
// padded` calls it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "io/folder_writer.h"

namespace neuronmm::exports {

struct PaddedRequest {
  std::filesystem::path model, out;  // `model` is a folder of any form, or a GGUF file
  bool force = false;                // replace an existing output folder
};

struct PaddedSummary {
  std::string class_name;         // "LlamaForCausalLM"
  std::string dtype;              // of the matrices: "BF16"
  int64_t intermediate_size = 0;  // of all layers in the new folder
  int64_t expert_neurons = 0;     // of all experts; 0 if there are none
  int64_t zeros = 0;              // parameters of the added neurons
  int64_t parameters_before = 0, parameters_after = 0;
  int64_t bytes_before = 0, bytes_after = 0;
  std::vector<std::string> notes;
};

// Writes `out`. Memory holds the factors of one matrix. Fails if the model cannot be read, if a
// value is beyond the range of the dtype, or if io::FolderWriter refuses `out`; nothing is left
// then.
Result<PaddedSummary> write_padded(const PaddedRequest& request, Progress& progress,
                                   const io::BeforeOutput<PaddedSummary>& before_output = {});

}  // namespace neuronmm::exports
