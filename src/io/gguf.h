#pragma once
// Model files of llama.cpp, where something else is expected. What reads them: gguf_file.h.

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

// An error that names it if `path` is a GGUF file (by its name or its first bytes): "...: is a GGUF
// file; expected {expected}", and the command that makes a model folder of it.
Status refuse_gguf(const std::filesystem::path& path, std::string_view expected);

}  // namespace neuronmm::io
