#pragma once
// The models of the paper's end-to-end measurements and the next larger one of each family, as
// their config.json on Hugging Face have them (meta-llama/Llama-3.2-1B and -3B, Llama-3.1-8B,
// Qwen/Qwen3-1.7B, -4B and -8B). Weights are bf16.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::apps {

std::vector<std::string> paper_model_names();
// `wanted`, or all when none is.
std::vector<std::string> models_or_all(const std::vector<std::string>& wanted);
Result<io::ModelConfig> paper_model(std::string_view name);  // "Llama-3.2-1B"

}  // namespace neuronmm::apps
