#pragma once
// The paths of the repository and of the built program, for tests. Only places.cc is compiled with
// these paths, so that every other object file is the same in any checkout.

#include <filesystem>

namespace neuronmm {

std::filesystem::path source_dir();
std::filesystem::path program_path();  // the program `neuronmm`

}  // namespace neuronmm
