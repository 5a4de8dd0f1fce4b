#pragma once
// The paths of the repository, of the built program and of a built model, for tests. Only places.cc
// is compiled with these paths, so that every other object file is the same in any checkout.

#include <filesystem>

namespace neuronmm {

std::filesystem::path source_dir();
std::filesystem::path program_path();     // the program `neuronmm`
std::filesystem::path one_layer_model();  // the bundled model with its first layer alone

}  // namespace neuronmm
