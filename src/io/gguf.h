#pragma once
// Recognizes model files of llama.cpp where a command expects something else, and tells the user
// how to import them. gguf_file.h reads such files.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// Returns whether `path` is a GGUF file, by its name or its first bytes.
bool is_gguf(const std::filesystem::path& path);

// Fails if `path` is a GGUF file, by its name or its first bytes. The error is "...: is a GGUF
// file; expected {expected}", with the command that makes a model folder of it.
Status refuse_gguf(const std::filesystem::path& path, std::string_view expected);

// Returns the sorted names of the GGUF files in a folder, or none if the folder cannot be read.
std::vector<std::string> gguf_files_in(const std::filesystem::path& folder);

// Returns the part of a message that says what to do with a GGUF file.
std::string import_hint(const std::filesystem::path& gguf);

}  // namespace neuronmm::io
