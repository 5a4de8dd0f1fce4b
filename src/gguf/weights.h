#pragma once
// Converts the tensors of a GGUF file to the weights of a Hugging Face folder. import.cc is the
// caller.

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "gguf/gguf_shards.h"
#include "gguf/hyperparameters.h"
#include "gguf/tied_table.h"
#include "io/model_config.h"
#include "io/safetensors_writer.h"

namespace neuronmm::gguf {

// A tensor of the folder and the tensor of the file that holds its values.
struct WeightSource {
  io::TensorSpec spec;
  const io::GgufTensor* tensor;
  // If not 0, the rows of the file's tensor lie in this number of heads, as interleaved pairs. The
  // folder has the two rows of a pair half a head apart. Row 2 i + j of a head becomes row
  // j * (rows of a head / 2) + i.
  int64_t interleaved_heads = 0;
  // The row of the file's tensor that is the first of the folder's, or the element of a vector. The
  // file may have one matrix for several of the folder, and one tensor for all experts of a layer.
  int64_t first_row = 0;
  // Is subtracted from every element. The gains of some families have 1 added in GGUF files.
  float offset = 0.0f;
};

// Returns the row of the file's tensor in which a vector of the folder lies. The vector begins at
// element first_row % columns.
std::vector<float> vector_row(const WeightSource& source);

// The sources of all tensors of a folder.
struct WeightMap {
  // The sources, in the order of model/tensor_specs.
  std::vector<WeightSource> sources;
  // Decides the names in the folder.
  io::Architecture architecture = io::Architecture::kLlama;
  // The tensors of the file that the model does not use.
  std::vector<std::string> unused_tensors;
};

// Finds the sources of all tensors. `config` is the result of config_json(). Fails if a tensor is
// missing, has another shape, or has a type that cannot be dequantized. Fails, too, if an unused
// tensor would change the computation. `tables` names the tensor of the embedding table.
Result<WeightMap> map_weights(const io::GgufShards& model, const io::ModelConfig& config,
                              const GgufArchitecture& architecture, const TablesOfFile& tables);

// Writes model.safetensors, or shards and their index, piece by piece on all threads. Values are
// dequantized and rounded to the config's dtype (to nearest, ties to even). Fails if a value is
// infinite, NaN or too large for the dtype, and the error names the tensor. A full disk and an
// interrupt are errors, too.
Status write_weights(const io::GgufShards& model, const WeightMap& map,
                     const std::filesystem::path& folder, Progress& progress);

}  // namespace neuronmm::gguf
