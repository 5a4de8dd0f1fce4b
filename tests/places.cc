#include "places.h"

namespace neuronmm {

std::filesystem::path source_dir() { return NEURONMM_SOURCE_DIR; }
std::filesystem::path program_path() { return NEURONMM_PROGRAM; }
std::filesystem::path one_layer_model() { return NEURONMM_ONE_LAYER_MODEL; }

}  // namespace neuronmm
