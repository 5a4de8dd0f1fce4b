#pragma once
// The files that make a folder which this program wrote a model of Hugging Face transformers: code
// that knows factors and int8 weights, and a config.json that names it (docs/transformers.md).

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::compress {

// The text of python/transformers/NAME.py, which the program carries along.
std::string_view configuration_code();
std::string_view modeling_code();
std::string_view mlp_code();

// Writes config.json, configuration_neuronmm.py, modeling_neuronmm.py and neuronmm_mlp.py.
// `config_text` is that of the model, ranks and int8 weights included; `source` is what errors call
// it.
Status write_transformers_files(const std::filesystem::path& folder, std::string_view config_text,
                                const std::string& source);

}  // namespace neuronmm::compress
