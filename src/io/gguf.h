#pragma once
// Model files of llama.cpp, which are common enough to be handed to us by mistake.

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

// An error that names it if `path` is a GGUF file (by its name or its first bytes): "...: is a GGUF
// file; expected {expected}".
Status refuse_gguf(const std::filesystem::path& path, std::string_view expected);

}  // namespace neuronmm::io
