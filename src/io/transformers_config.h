#pragma once
// Which class computes a model, as config.json says it: a published one ("LlamaForCausalLM",
// "llama"), or ours in Hugging Face transformers, whose code lies in the folder
// ("NeuronmmLlamaForCausalLM", "neuronmm_llama"). The whole story: docs/transformers.md.

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/json_file.h"
#include "io/model_config.h"

namespace neuronmm::io {

// The files of a folder whose config.json names our classes.
inline constexpr const char* kConfigurationModule = "configuration_neuronmm";
inline constexpr const char* kModelingModule = "modeling_neuronmm";
inline constexpr const char* kMlpModule = "neuronmm_mlp";  // which the second imports

// From "architectures" or, where that is missing, "model_type"; of either form.
Result<Architecture> read_architecture(const JsonFields& fields);

// The config.json text of the same model, computed by our classes in transformers: "architectures",
// "model_type" and "auto_map" are replaced, every other key of `original_text` is kept.
Result<std::string> with_transformers_classes(std::string_view original_text,
                                              const std::string& source);
// The other way round: of a model that the published class computes.
Result<std::string> with_published_classes(std::string_view original_text,
                                           const std::string& source);

}  // namespace neuronmm::io
