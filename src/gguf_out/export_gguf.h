#pragma once
// Writes a model to a GGUF file that llama.cpp, Ollama and LM Studio load, for `neuronmm export
// --target gguf`.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "gguf_out/source_model.h"
#include "gguf_out/tensor_writer.h"
#include "gguf_out/type_mix.h"
#include "io/folder_writer.h"
#include "io/inode.h"

namespace neuronmm::gguf_out {

struct GgufRequest {
  // A folder of any form, or a GGUF file.
  std::filesystem::path model;
  std::filesystem::path out;
  // A name of type_mix_names(). Empty: Q8_0 for a model of 8 bits, else default_type().
  std::string type = {};
  // Takes the types of the mix for matrices that are rounded by a text (TypeMix::calibrated).
  bool calibrated = false;
  // Fails if a tensor cannot have the type of the mix.
  bool strict = false;
  // Replaces a file that exists.
  bool force = false;
  // The program and its version, which the file names.
  std::string producer = "neuronmm";
};

// Matrices that were rounded before, for example by calibrated rounding.
struct RoundedMatrices {
  // The types of the matrices of a plan. They fit the rows.
  BlockTypes types = {};
  RoundedRows rows = {};
};

struct GgufSummary {
  std::string architecture, type;
  int64_t parameters = 0;
  int64_t bytes = 0;
  // The number of tensors by the name of their type.
  std::map<std::string, int64_t> types = {};
  // Remarks for the user.
  std::vector<std::string> notes = {};
  // Identifies the file, even before it has its name.
  io::Inode file = {};
};

// Returns the type for a model if none is named.
std::string_view default_type(const SourceModel& model);

// Fails if `out` exists and may not be replaced. Call it before long work.
Status check_gguf_output(const GgufRequest& request);

// Returns the types of the matrices that may be rounded before, by their names in the model: those
// that the model has as one dense matrix and whose rows the file does not fill. Fails as
// export_gguf() does.
Result<BlockTypes> planned_types(const GgufRequest& request);

// Writes the file. If the export fails or is interrupted, nothing is left. Fails on models that no
// architecture of llama.cpp computes, on tokenizers that it does not have, and with `strict` on
// rows that are no whole blocks.
Result<GgufSummary> export_gguf(const GgufRequest& request, const RoundedMatrices& rounded,
                                Progress& progress,
                                const io::BeforeOutput<GgufSummary>& before_output = {});

}  // namespace neuronmm::gguf_out
