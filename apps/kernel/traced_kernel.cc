#include "kernel/traced_kernel.h"

#include <algorithm>

#include "trainium/trace/simulate.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using simulator::DeviceSpec;

Result<double> latency_ms(const trace::TraceFile& file, const DeviceSpec& device, bool as_written) {
  trace::TraceOptions options;
  options.as_written = as_written;
  NMM_ASSIGN(const trace::TraceTiming timing, trace::simulate(file, device, options));
  return timing.timing.summary.milliseconds();
}

}  // namespace

fs::path values_beside(const fs::path& trace, const std::string& outputs) {
  if (outputs.empty()) return {};
  return trace.string() + fs::path(outputs).extension().string();
}

Result<Traced> trace_of(const std::string& kernel, const TracerCall& given, bool is_stored,
                        const fs::path& path) {
  Traced traced;
  fs::path file = kernel;
  const bool python = kernel.find(".py:") != std::string::npos || kernel.ends_with(".py");
  if (!is_stored && python) {
    TracerCall call = given;
    call.kernel = kernel;
    call.outputs = values_beside(path, call.outputs).string();
    file = path;
    NMM_ASSIGN(traced.tracer, run_tracer(call, file));
    if (!traced.tracer.finished) return traced;
  }
  NMM_ASSIGN(traced.file, trace::TraceFile::open(file, kernel));
  return traced;
}

std::string refusal_of(const TracerReport& tracer) {
  if (!tracer.message.empty()) return tracer.message;
  return "Python ended without a message or a trace, as os._exit() makes it do";
}

Result<KernelRun> run_kernel(const std::string& name, const Traced& traced, bool as_written,
                             const DeviceSpec& device, simulator::Timeline* timeline) {
  KernelRun run;
  run.name = name;
  run.header = traced.file->header();
  run.results = traced.tracer.results;
  trace::TraceOptions options;
  options.as_written = run.is_as_written = as_written;
  if (!as_written && trace::may_be_rescheduled(*traced.file)) {
    NMM_ASSIGN(const double rescheduled, latency_ms(*traced.file, device, false));
    NMM_ASSIGN(const double written, latency_ms(*traced.file, device, true));
    options.as_written = run.is_as_written = written < rescheduled;
    run.other_order_ms = std::max(written, rescheduled);
  }
  options.timing.timeline = timeline;
  NMM_ASSIGN(run.timing, trace::simulate(*traced.file, device, options));
  return run;
}

}  // namespace neuronmm::apps
