#pragma once
// Runs a kernel once for each of several values of a parameter or of a constant of its file, and
// compares the latencies: `neuronmm nki --sweep TILE=128,256,512`. nki.cc runs the kernel.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/nki_report.h"
#include "kernel/nki_tracer.h"

namespace neuronmm::apps {

// The values of --sweep as the user wrote them.
struct Sweep {
  std::string name;
  std::vector<std::string> values;
};

// Parses NAME=V1,V2,... A comma inside brackets or quotes does not separate values. Fails if there
// is no name, no value, an empty value or more than 64 values.
Result<Sweep> parse_sweep(const std::string& text);

// Checks the text of --sweep, which may be empty, and that no other option is given that says
// nothing of a sweep: `others` are their names, and whether they are given.
Status check_sweep_options(const std::string& text,
                           const std::vector<std::pair<const char*, bool>>& others);

// The kernel with one value.
struct SweepRun {
  TracerReport tracer;
  std::optional<KernelRun> run;  // Empty if the kernel fails.
  std::string refusal;           // The reason in that case.
  simulator::DeviceSpec device;
};
using RunWithValue = std::function<Result<SweepRun>(const TracerCall&)>;

// Runs the sweep, prints its table and writes `json` if it is not empty. Returns the exit code: 1
// if the kernel fails with every value or computes a wrong result with one, 2 if the arguments are
// wrong. Errors: `run` fails, the machine fails while Python runs, or the JSON cannot be written.
Result<int> run_nki_sweep(const Sweep& sweep, const TracerCall& call, const std::string& json,
                          const RunWithValue& run);

}  // namespace neuronmm::apps
