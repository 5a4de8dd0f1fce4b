#pragma once
// From a GGUF file's tensors to the weights of a Hugging Face folder.

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "gguf/hyperparameters.h"
#include "io/gguf_shards.h"
#include "io/model_config.h"
#include "io/safetensors_writer.h"

namespace neuronmm::gguf {

// A tensor of the folder and where its values come from.
struct WeightSource {
  io::TensorSpec spec;
  const io::GgufTensor* tensor;
  // 0, or: the rows lie in this many heads of interleaved pairs, which the folder has half a head
  // apart. Row 2 i + j of a head becomes row j * (rows of a head / 2) + i.
  int64_t interleaved_heads = 0;
};

struct WeightMap {
  std::vector<WeightSource> sources;  // in the order of model/tensor_specs
  std::vector<std::string> left_out;  // tensors that the model does not use
};

// `config` is what config_json() made. Errors: a tensor that is missing, of another shape or of a
// type that is not dequantized; one that is left over and would change the computation.
Result<WeightMap> map_weights(const io::GgufShards& model, const io::ModelConfig& config,
                              const GgufArchitecture& architecture);

// Writes model.safetensors, or shards and their index, piece by piece, on all threads. Values are
// dequantized and rounded to the config's dtype (nearest even). Errors name the tensor: values that
// are infinite, no numbers or too large for the dtype; no room on the disk; an interrupt.
Status write_weights(const io::GgufShards& model, const WeightMap& map,
                     const std::filesystem::path& folder, Progress& progress);

}  // namespace neuronmm::gguf
