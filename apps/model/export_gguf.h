#pragma once
// The part of `neuronmm export` that writes a GGUF file.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace neuronmm::apps {

inline constexpr const char* kGgufTarget = "gguf";

// The flags that only this target has.
struct GgufFlags {
  std::string type;
  std::vector<std::string> calibration;
  std::optional<int64_t> calibration_tokens;
  std::filesystem::path statistics;
  bool strict = false, force = false;
};
void add_gguf_flags(CLI::App* command, GgufFlags& flags);

struct GgufExport {
  std::filesystem::path model, out;
  std::string json;
  int threads = 0;
  GgufFlags gguf = {};
};
// Writes the file and prints what it holds. Returns the exit code.
Result<int> run_export_gguf(const GgufExport& flags);

}  // namespace neuronmm::apps
