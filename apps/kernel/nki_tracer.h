#pragma once
// Runs a kernel of a user's Python file with python/nki (docs/guide/nki_kernels.md), which records
// what the kernel does. `neuronmm nki` calls it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::apps {

// The arguments of a run. A value that is not set keeps the default of python/nki.
struct TracerCall {
  std::string kernel;                          // "FILE.py:KERNEL".
  std::vector<std::string> arguments;          // For example "x=bf16[128,512]".
  std::vector<std::string> keyword_arguments;  // For example "tile=512".
  std::string device;                          // For example "trn2".
  std::string sdk = {};                        // For example "2.33"; empty: the device's newest.
  bool values = false;                         // Also compute the values, on random inputs.
  std::string reference;  // "MODULE:FUNCTION" or an expression; empty if there is none.
  uint64_t seed = 0;
  std::optional<double> tolerance = {};           // The relative error that is allowed.
  std::optional<int64_t> most_instructions = {};  // The kernel is stopped beyond them.
  std::optional<double> most_seconds = {};        // The kernel's Python is stopped after them.
};

// A result of the kernel, compared with its reference.
struct TracedResult {
  std::string dtype;
  std::vector<int64_t> shape;
  std::optional<double> error, tolerance;  // Relative errors. Set if there is a reference.
  bool passed() const { return !error || *error <= *tolerance; }
};

// How a run ended.
struct TracerReport {
  int exit_code = 0;      // 1 if the kernel is wrong, 2 if the arguments are; `message` says how.
  std::string message;    // A line, perhaps followed by lines of the user's files.
  bool finished = false;  // Whether the trace and the results are complete.
  std::vector<TracedResult> results;
};

// Runs the kernel and writes its trace to `trace`. A kernel that fails in Python is no error: the
// report then has its message and is not finished. Errors: Python, NumPy or the package
// python/nki is missing, a signal has ended Python, or the run was interrupted.
Result<TracerReport> run_tracer(const TracerCall& call, const std::filesystem::path& trace);

}  // namespace neuronmm::apps
