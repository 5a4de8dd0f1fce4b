#pragma once
// The part of `neuronmm export` that writes a dense folder with layers of equal sizes.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace neuronmm::apps {

inline constexpr const char* kPaddedTarget = "padded";

struct PaddedExport {
  std::filesystem::path model, out;
  std::string json;
  int threads = 0;
  bool force = false;
};
// Writes the folder and prints what it holds. Returns the exit code.
Result<int> run_export_padded(const PaddedExport& flags);

}  // namespace neuronmm::apps
