#pragma once
// Writes a model folder that has the tensors of a model and the adapter that was chosen for it
// (io/adapter.h). The command `import` calls it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "io/folder_writer.h"

namespace neuronmm::compress {

// A request to merge the chosen adapter into its model.
struct MergeRequest {
  std::filesystem::path model, out;  // `model` is a folder or a GGUF file
  // The dtype of all floats. Without it, tensors keep theirs, except that F64 becomes F32 and
  // foreign formats become bf16.
  std::optional<DType> dtype = {};
  bool force = false;  // replace an existing output folder
};

// The result, for the caller's report.
struct MergeSummary {
  std::string class_name;                     // "LlamaForCausalLM"
  int64_t parameters = 0;                     // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;  // of the weights
  std::vector<std::string> notes = {};        // files that were not copied
};

// Writes `out`. Memory holds some rows of one tensor. Fails if the adapter cannot be merged, if a
// value is beyond the range of the dtype, or if io::FolderWriter refuses `out`; nothing is left
// then.
Result<MergeSummary> write_merged(const MergeRequest& request, Progress& progress,
                                  const io::BeforeOutput<MergeSummary>& before_output = {});

}  // namespace neuronmm::compress
