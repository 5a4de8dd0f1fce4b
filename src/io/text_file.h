#pragma once
// Whole texts from and to files.

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

// Writes `text` to `path` through a temporary and a rename.
Status write_text_file(const std::filesystem::path& path, std::string_view text);
Result<std::string> read_text_file(const std::filesystem::path& path);

}  // namespace neuronmm::io
