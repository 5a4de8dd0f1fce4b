#pragma once
// Runs a kernel of a user's Python file, or opens a stored trace, and simulates it. `neuronmm nki`
// does so for each kernel of its command line.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernel/nki_report.h"
#include "kernel/nki_tracer.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/timeline.h"
#include "trainium/trace/file.h"

namespace neuronmm::apps {

// A traced kernel, from a Python file or from a stored trace.
struct Traced {
  std::optional<trace::TraceFile> file;  // Empty if the kernel fails; the tracer then says how.
  TracerReport tracer;
};

// Returns where the tracer writes the results, beside the trace, if `outputs` names their file.
std::filesystem::path values_beside(const std::filesystem::path& trace, const std::string& outputs);

// Runs a kernel of a Python file and puts its trace at `path`. Any other name is that of a stored
// trace. A file without a kernel's name also goes to the tracer, whose message says what is
// missing. `is_stored` says that the name is that of a stored trace, whatever it looks like.
Result<Traced> trace_of(const std::string& kernel, const TracerCall& call, bool is_stored,
                        const std::filesystem::path& path);

// Returns why a tracer made no trace.
std::string refusal_of(const TracerReport& tracer);

// Simulates a kernel that has a trace. One that its compiler may reorder is simulated in both
// orders, unless `as_written`. `timeline` may be null.
Result<KernelRun> run_kernel(const std::string& name, const Traced& traced, bool as_written,
                             const simulator::DeviceSpec& device, simulator::Timeline* timeline);

}  // namespace neuronmm::apps
