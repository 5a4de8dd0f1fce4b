#pragma once
// A kernel of somebody's Python file, run by python/nki (docs/nki_front_end.md), which records what
// it does.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::apps {

struct TracerCall {
  std::string kernel;                          // "FILE.py:KERNEL"
  std::vector<std::string> arguments;          // "x=bf16[128,512]"
  std::vector<std::string> keyword_arguments;  // "tile=512"
  std::string device;                          // "trn2"
  bool values = false;
  std::string reference;  // "MODULE:FUNCTION" or an expression; empty: none
  uint64_t seed = 0;
  std::optional<double> tolerance = {};
  std::optional<int64_t> most_instructions = {};
  std::optional<double> most_seconds = {};
};

// A result of the kernel beside its reference.
struct TracedResult {
  std::string dtype;
  std::vector<int64_t> shape;
  std::optional<double> error, tolerance;  // with a reference
  bool passed() const { return !error || *error <= *tolerance; }
};

struct TracerReport {
  int exit_code = 0;    // 1: the kernel is wrong, 2: the command line is; `message` says how
  std::string message;  // of one line, perhaps followed by those of the user's files
  std::vector<TracedResult> results;
};

// Writes the trace to `trace`. Fails where Python or NumPy is missing.
Result<TracerReport> run_tracer(const TracerCall& call, const std::filesystem::path& trace);

}  // namespace neuronmm::apps
