#pragma once
// What a GGUF file is as a model folder: its config.json, and which tensor of the file is which of
// the folder. `import` writes it (import.h), and other commands open it in memory (mounted_gguf.h).

#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "gguf/gguf_shards.h"
#include "gguf/hyperparameters.h"
#include "gguf/tied_table.h"
#include "gguf/vocabulary.h"
#include "gguf/weights.h"
#include "io/model_config.h"

namespace neuronmm::gguf {

struct ModelPlan {
  GgufArchitecture architecture;
  std::string config_text;
  io::ModelConfig config;
  WeightMap weights;
};

// Plans the folder of a file that has tensors. `vocabulary` is null if the file has none. `dtype`
// is that of the folder's config. Fails on missing or contradicting metadata, and on anything that
// io/model_config cannot run.
Result<ModelPlan> plan_model(const io::GgufShards& model, const Vocabulary* vocabulary, DType dtype,
                             const TablesOfFile& tables);

}  // namespace neuronmm::gguf
