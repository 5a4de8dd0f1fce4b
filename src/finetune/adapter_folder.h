#pragma once
// Writes trained LoRA adapters as PEFT saves them: adapter_config.json and
// adapter_model.safetensors. PEFT and io/adapter.h read the folder.
//
// Source: PEFT 0.21.2 (tuners/lora/config.py, utils/save_and_load.py).

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "training/tape.h"

namespace neuronmm::finetune {

// `base` is the model that the adapters were trained for. `adapted` are its matrices, with their
// adapters of one rank.
Status write_adapters(const std::vector<const training::Parameter<float>*>& adapted,
                      const std::filesystem::path& base, const std::filesystem::path& folder);

}  // namespace neuronmm::finetune
