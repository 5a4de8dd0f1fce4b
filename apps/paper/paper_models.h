#pragma once
// This file lists the models of the paper's end-to-end measurements and the next larger model of
// each family. The sizes are those of the config.json files on Hugging Face
// (meta-llama/Llama-3.2-1B and -3B, Llama-3.1-8B, Qwen/Qwen3-1.7B, -4B and -8B). Weights are bf16.
// The figures of `neuronmm paper` use them without downloading anything.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::apps {

std::vector<std::string> paper_model_names();
// Returns `wanted`, or all models if it is empty.
std::vector<std::string> models_or_all(const std::vector<std::string>& wanted);
// Returns the config of a model such as "Llama-3.2-1B". Fails for an unknown name.
Result<io::ModelConfig> paper_model(std::string_view name);

}  // namespace neuronmm::apps
