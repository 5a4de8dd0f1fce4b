#pragma once
// Where the repository and the built program lie. Only places.cc is compiled with these paths, so
// that every other object file is the same in any checkout.

#include <filesystem>

namespace neuronmm {

std::filesystem::path source_dir();
std::filesystem::path program_path();  // of `neuronmm`

}  // namespace neuronmm
