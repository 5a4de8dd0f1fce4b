#pragma once
// Writes the files with which Hugging Face transformers can load a folder of this program
// (docs/guide/transformers.md): Python code that knows factors and rounded weights, and a
// config.json that names this code.

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::compress {

// Return the text of a file of python/transformers, which is compiled into the program.
std::string_view configuration_code();
std::string_view modeling_code();
std::string_view mlp_code();

// One of these files as the model card describes it.
struct CodeFile {
  std::string_view name;  // "modeling_neuronmm.py"
  std::string_view job;   // what its code does, in a few words
  std::string_view sha256;
};
std::array<CodeFile, 3> code_files();
// Returns the version of this program, to which the files belong.
std::string_view code_version();

// Writes config.json, configuration_neuronmm.py, modeling_neuronmm.py and neuronmm_mlp.py to
// `folder`. A mixture of experts gets config.json alone, because the code knows no mixtures. Its
// class is ours, too, so that no other program takes the folder for one of its own. `config_text`
// is the config.json of the model, including ranks and quantization. `source` is what errors call
// it. Fails if `config_text` cannot be parsed or a file cannot be written.
Status write_transformers_files(const std::filesystem::path& folder, std::string_view config_text,
                                const std::string& source);

}  // namespace neuronmm::compress
