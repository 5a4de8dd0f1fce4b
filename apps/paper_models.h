#pragma once
// The models of the paper's end-to-end measurements, as their config.json on Hugging Face have them
// (meta-llama/Llama-3.2-1B and -3B, Qwen/Qwen3-1.7B and -4B).

#include <string_view>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::apps {

Result<io::ModelConfig> paper_model(std::string_view name);  // "Llama-3.2-1B"

}  // namespace neuronmm::apps
