#include "finetune/adapter_folder.h"

#include <set>
#include <span>

#include <nlohmann/json.hpp>

#include "io/adapter_config.h"
#include "io/adapter_file.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"

namespace neuronmm::finetune {
namespace {

using Parameter = training::Parameter<float>;

// Returns "model.layers.0.mlp.gate_proj" for "model.layers.0.mlp.gate_proj.weight".
std::string module_of(const Parameter& matrix) {
  return matrix.name.substr(0, matrix.name.rfind('.'));
}

std::string config_text(const std::vector<const Parameter*>& adapted,
                        const std::filesystem::path& base) {
  std::set<std::string> targets;
  for (const Parameter* const matrix : adapted) {
    const std::string module = module_of(*matrix);
    targets.insert(module.substr(module.rfind('.') + 1));
  }
  const training::Adapter<float>& first = *adapted.front()->adapter;
  const auto rank = static_cast<double>(first.a.rows);
  const nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                         {"task_type", "CAUSAL_LM"},
                                         {"base_model_name_or_path", base.string()},
                                         {"r", first.a.rows},
                                         {"lora_alpha", first.scale * rank},
                                         {"lora_dropout", 0.0},
                                         {"target_modules", targets},
                                         {"bias", "none"},
                                         {"fan_in_fan_out", false},
                                         {"use_rslora", false},
                                         {"use_dora", false},
                                         {"init_lora_weights", true},
                                         {"inference_mode", true}};
  // The path of the model may hold bytes that are not UTF-8.
  return config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Status write_adapters(const std::vector<const Parameter*>& adapted,
                      const std::filesystem::path& base, const std::filesystem::path& folder) {
  NMM_TRY(io::write_text_file(folder / io::kAdapterConfigName, config_text(adapted, base)));
  std::vector<io::TensorSpec> specs;
  std::vector<const Parameter*> tensors;
  for (const Parameter* const matrix : adapted) {
    const std::string stem = "base_model.model." + module_of(*matrix);
    for (const auto& [ending, tensor] : {std::pair{".lora_A.weight", &matrix->adapter->a},
                                         std::pair{".lora_B.weight", &matrix->adapter->b}}) {
      specs.push_back({stem + ending, DType::kF32, {tensor->rows, tensor->columns}});
      tensors.push_back(tensor);
    }
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create(folder / io::kAdapterFileName, specs,
                                                        {{"format", "pt"}}));
  for (const Parameter* const tensor : tensors) {
    const std::span<const float> values(tensor->value.data(), static_cast<size_t>(tensor->size()));
    NMM_TRY(writer.append(std::as_bytes(values)));
  }
  return writer.finish();
}

}  // namespace neuronmm::finetune
