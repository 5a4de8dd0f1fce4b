#pragma once
// The classes that compute a model, as config.json names them. A class is either a published one
// ("LlamaForCausalLM", "llama") or ours in Hugging Face transformers ("NeuronmmLlamaForCausalLM",
// "neuronmm_llama"), whose code lies in the folder. See docs/guide/transformers.md.

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/json_file.h"
#include "io/model_config.h"

namespace neuronmm::io {

// The files of a folder whose config.json names our classes.
inline constexpr const char* kConfigurationModule = "configuration_neuronmm";
inline constexpr const char* kModelingModule = "modeling_neuronmm";
// The modeling module imports this one.
inline constexpr const char* kMlpModule = "neuronmm_mlp";

// Reads the architecture from "architectures" or, if that is missing, from "model_type". Both kinds
// of names are accepted.
Result<Architecture> read_architecture(const JsonFields& fields);
// Reads it from the text of a config.json.
Result<Architecture> read_architecture(std::string_view text, const std::string& source);

// Returns the object itself, or for a family that has the mathematics of another one (the language
// model of Qwen3-VL, for example) the config.json of that one.
Result<nlohmann::json> of_one_family(const nlohmann::json& document, const std::string& source);
// The same for texts. What writes another folder of a model begins with the result.
Result<std::string> text_of_one_family(std::string_view original_text, const std::string& source);

// Returns the config.json text of a model that our classes in transformers compute.
// "architectures", "model_type" and "auto_map" are replaced, and every other key of `original_text`
// is kept.
Result<std::string> with_transformers_classes(std::string_view original_text,
                                              const std::string& source);
// Returns the config.json text of a model that the published class computes. The key "auto_map" is
// removed.
Result<std::string> with_published_classes(std::string_view original_text,
                                           const std::string& source);

// Returns the key of config.json that has the number of neurons of an expert.
std::string_view expert_width_key(Architecture architecture);

}  // namespace neuronmm::io
