#pragma once
// Model files of llama.cpp, where something else is expected. What reads them: gguf_file.h.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// An error that names it if `path` is a GGUF file (by its name or its first bytes): "...: is a GGUF
// file; expected {expected}", and the command that makes a model folder of it.
Status refuse_gguf(const std::filesystem::path& path, std::string_view expected);

// The names of the GGUF files in a folder, sorted; none if it cannot be read.
std::vector<std::string> gguf_files_in(const std::filesystem::path& folder);

// An error that names them if `file` is absent and GGUF files lie beside it.
Status refuse_gguf_beside(const std::filesystem::path& file);

// How a message says what to do with a GGUF file.
std::string import_hint(const std::filesystem::path& gguf);

}  // namespace neuronmm::io
