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
  std::vector<std::string> settings = {};      // Parameters or constants of the file: "TILE=512".
  std::string device;                          // For example "trn2".
  std::string sdk = {};                        // For example "2.33"; empty: the device's newest.
  bool values = false;                         // Also compute the values, on random inputs.
  std::string reference;  // "MODULE:FUNCTION" or an expression; empty if there is none.
  std::string outputs;    // FILE.npz or FILE.npy for the results; empty if they are not kept.
  uint64_t seed = 0;
  std::optional<double> tolerance = {};           // The relative error that is allowed.
  std::optional<int64_t> most_instructions = {};  // The kernel is stopped beyond them.
  std::optional<double> most_seconds = {};        // The kernel's Python is stopped after them.
  std::optional<int64_t> most_bytes = {};         // Memory that the kernel's Python may take.
};

// The elements of a result that differ from the reference.
struct WrongElements {
  std::vector<int64_t> index;  // The first wrong element.
  double found = 0, expected = 0;
  double share = 0;  // Wrong elements of all.
  double ulps = 0;   // The largest error, in units of the last place of the result's type.
};

// A result of the kernel, compared with its reference.
struct TracedResult {
  std::string dtype;
  std::vector<int64_t> shape;
  std::optional<double> error, tolerance;   // Relative errors. Set if there is a reference.
  std::optional<WrongElements> wrong = {};  // Set if the error is larger than the tolerance.
  bool passed() const { return !error || *error <= *tolerance; }
};

// How a run ended.
struct TracerReport {
  int exit_code = 0;      // 1 if the kernel is wrong, 2 if the arguments are; `message` says how.
  std::string message;    // A line, perhaps followed by lines of the user's files.
  bool finished = false;  // Whether the trace and the results are complete.
  // Whether the kernel is to blame that it is not. The machine is if a file cannot be read or
  // written, or if somebody ends Python.
  bool kernel_failed = false;
  std::vector<TracedResult> results;
};

// Runs the kernel and writes its trace to `trace`. A kernel that fails in Python is no error: the
// report then has its message and is not finished, also if a signal has ended Python. Errors:
// Python, NumPy or the package python/nki is missing, or the run was interrupted.
Result<TracerReport> run_tracer(const TracerCall& call, const std::filesystem::path& trace);

// A test of a folder.
struct KernelTest {
  std::string file, name, outcome;  // The outcome is "passed", "failed" or "skipped".
  std::string message;              // Why the test failed or was skipped.
  double seconds = 0;
};

// The tests of a folder, in order. Empty if the folder has none; `message` then says so.
struct FolderReport {
  std::vector<KernelTest> tests;
  std::string message;
  int exit_code = 0;
};

// Runs the tests in the folder that `call.kernel` names. Python writes its report to `report_file`.
Result<FolderReport> run_test_folder(const TracerCall& call,
                                     const std::filesystem::path& report_file);

}  // namespace neuronmm::apps
