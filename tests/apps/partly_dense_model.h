#pragma once
// A compressed model folder that no command writes: two factors in place of gate and down, a dense
// up.

#include <filesystem>

namespace neuronmm::apps {

// Compresses the bundled model through the library. Throws std::runtime_error.
void write_partly_dense_model(const std::filesystem::path& out);

}  // namespace neuronmm::apps
