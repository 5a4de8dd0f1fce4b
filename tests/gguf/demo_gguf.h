#pragma once
// The bundled model of models/demo as a GGUF file, which tests of commands open.

#include <string>

namespace neuronmm::gguf {

// The type of the file's matrices. Those of BF16 have exactly the model's weights.
enum class DemoMatrices { kBf16, kQ8_0 };

// Returns the bytes of the file, with weights, vocabulary and settings.
std::string demo_gguf(DemoMatrices matrices);

}  // namespace neuronmm::gguf
