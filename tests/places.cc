#include "places.h"

namespace neuronmm {

std::filesystem::path source_dir() { return NEURONMM_SOURCE_DIR; }
std::filesystem::path program_path() { return NEURONMM_PROGRAM; }

}  // namespace neuronmm
