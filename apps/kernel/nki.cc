// `neuronmm nki` runs a user's own NKI kernel on one simulated NeuronCore. It reports the latency,
// the engines, the bytes, and the source lines that the time goes to.

#include <algorithm>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/mapped_file.h"
#include "kernel/latency_gate.h"
#include "kernel/nki_flags.h"
#include "kernel/nki_folder.h"
#include "kernel/nki_page.h"
#include "kernel/nki_report.h"
#include "kernel/nki_sweep.h"
#include "kernel/trace_folder.h"
#include "kernel/traced_kernel.h"
#include "kernel/what_if.h"
#include "message.h"
#include "output_file.h"
#include "plot/page.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using simulator::DeviceSpec;

// Prints the message of a tracer that made no trace. Returns the exit code: 2 if the command line
// is wrong, otherwise 1, whatever exit code the kernel chose.
int report_refusal(const TracerReport& tracer) {
  print_message("neuronmm nki: {}\n", refusal_of(tracer));
  return tracer.exit_code == 2 ? 2 : 1;
}

Result<std::vector<WhatIf>> parse_what_ifs(const NkiFlags& flags, const DeviceSpec& device) {
  std::vector<WhatIf> parsed;
  for (const std::string& text : flags.what_ifs) {
    NMM_ASSIGN(WhatIf what_if, parse_what_if(text, device));
    parsed.push_back(std::move(what_if));
  }
  return parsed;
}

WhatIfResult simulate_what_if(const Traced& traced, bool as_written, const WhatIf& what_if) {
  const auto timing = simulate_with(what_if, *traced.file, as_written);
  if (!timing.ok()) return {what_if.text, {}, timing.error().message};
  return {what_if.text, timing->timing.summary.milliseconds(), ""};
}

bool values_are_wrong(const KernelRun& run) {
  return !std::ranges::all_of(run.results, &TracedResult::passed);
}

struct Outputs {
  OutputFile trace, values, timeline, html;
  ReportWriter writer;

  bool wants_timeline() const { return timeline.wanted() || html.wanted(); }
};

// Opens all outputs, so that files that cannot be written are refused before any work.
Result<Outputs> open_outputs(const NkiFlags& flags) {
  Outputs outputs;
  NMM_ASSIGN(outputs.trace, OutputFile::open(flags.save_trace));
  NMM_ASSIGN(outputs.values, OutputFile::open(flags.call.outputs));
  NMM_ASSIGN(outputs.timeline, OutputFile::open(flags.trace));
  NMM_ASSIGN(outputs.html, OutputFile::open(flags.html));
  NMM_ASSIGN(outputs.writer, ReportWriter::open(flags.json));
  return outputs;
}

Status write(Outputs& outputs, const NkiReport& report, const DeviceSpec& device,
             const simulator::Timeline& timeline, const std::vector<LatencyVerdict>& verdicts,
             size_t lines) {
  if (outputs.timeline.wanted()) {
    NMM_TRY(outputs.timeline.write(timeline.json(report.run.name, device.name)));
  }
  if (outputs.html.wanted()) {
    NMM_ASSIGN(const std::string page, finished_page(nki_page(report, device, timeline)));
    NMM_TRY(outputs.html.write(page));
  }
  if (outputs.writer.wants_json()) {
    nlohmann::ordered_json json = to_json(report, device);
    json["inputs"] = inputs_of(report.run.header);
    if (!verdicts.empty()) json["expected"] = verdict_json(verdicts);
    NMM_TRY(outputs.writer.write_json(std::move(json)));
  }
  outputs.writer.print("{}", to_text(report, device, lines));
  if (outputs.timeline.wanted() && timeline.total() > timeline.kept()) {
    outputs.writer.print("\ntrace: the first {} of {} events\n", timeline.kept(), timeline.total());
  }
  outputs.writer.print("{}", verdict_text(verdicts));
  return {};
}

// Copies what the tracer wrote to the file that --save-trace or --save-outputs names.
Status copy_to(OutputFile& file, const fs::path& path) {
  if (!file.wanted()) return {};
  NMM_ASSIGN(const auto mapped, io::MappedFile::open(path));
  const auto bytes = mapped->bytes();
  return file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Runs the kernel with one value of a sweep.
Result<SweepRun> run_with_value(const NkiFlags& flags, const TracerCall& call) {
  NMM_ASSIGN(TraceFolder folder, TraceFolder::create());
  NMM_ASSIGN(const Traced traced,
             trace_of(call.kernel, call, false, folder.path() / "kernel.trace"));
  SweepRun result{
      .tracer = traced.tracer, .run = {}, .refusal = refusal_of(traced.tracer), .device = {}};
  if (!traced.file) return result;
  NMM_ASSIGN(result.device, simulator::find_device(traced.file->header().device));
  auto run = run_kernel(call.kernel, traced, flags.as_written, result.device, nullptr);
  if (run.ok()) {
    result.run = std::move(*run);
  } else {
    result.refusal = run.error().message;
  }
  NMM_TRY(folder.remove());
  return result;
}

Result<int> run_sweep(const NkiFlags& flags) {
  NMM_ASSIGN(const Sweep sweep, parse_sweep(flags.sweep));
  return run_nki_sweep(sweep, flags.call, flags.json,
                       [&flags](const TracerCall& call) { return run_with_value(flags, call); });
}

// Adds the other kernel, the what-ifs and the advice to a report. Puts the trace of the other
// kernel at `path`. Returns 0, or the exit code if the other kernel made no trace.
Result<int> add_other_runs(NkiReport& report, const NkiFlags& flags, const Traced& traced,
                           const std::vector<WhatIf>& what_ifs, const DeviceSpec& device,
                           const fs::path& path) {
  if (!flags.compare.empty()) {
    TracerCall without_values = flags.call;
    without_values.outputs.clear();
    NMM_ASSIGN(const Traced other,
               trace_of(flags.compare, without_values, flags.compare == flags.from_trace, path));
    if (!other.file) return report_refusal(other.tracer);
    NMM_ASSIGN(report.other, run_kernel(flags.compare, other, flags.as_written, device, nullptr));
  }
  for (const WhatIf& what_if : what_ifs) {
    report.what_ifs.push_back(simulate_what_if(traced, report.run.is_as_written, what_if));
  }
  report.advice = advise(*traced.file, report.run.timing, report.run.is_as_written, device);
  return 0;
}

Result<int> run_nki(const NkiFlags& flags) {
  std::error_code error;
  if (fs::is_directory(flags.call.kernel, error)) return run_nki_folder(flags.call, flags.json);
  if (!flags.sweep.empty()) return run_sweep(flags);
  std::optional<Baseline> baseline;
  if (!flags.baseline.empty()) {
    NMM_ASSIGN(baseline, read_baseline(flags.baseline));
  }
  NMM_ASSIGN(Outputs outputs, open_outputs(flags));
  NMM_ASSIGN(TraceFolder folder, TraceFolder::create());
  const bool runs = flags.from_trace.empty();
  const fs::path path = runs ? folder.path() / "kernel.trace" : fs::path(flags.from_trace);
  NMM_ASSIGN(const Traced traced,
             trace_of(runs ? flags.call.kernel : flags.from_trace, flags.call, !runs, path));
  if (!traced.file) return report_refusal(traced.tracer);
  const std::string& recorded = traced.file->header().device;
  NMM_ASSIGN(const DeviceSpec device,
             simulator::find_device(flags.call.device.empty() ? recorded : flags.call.device));
  NMM_ASSIGN(const std::vector<WhatIf> what_ifs, parse_what_ifs(flags, device));
  simulator::Timeline timeline;
  NkiReport report;
  if (!flags.measured.empty()) {
    NMM_ASSIGN(report.measured, read_measured_profile(flags.measured));
    report.measured_file = flags.measured;
  }
  NMM_ASSIGN(report.run,
             run_kernel(runs ? flags.call.kernel : flags.from_trace, traced, flags.as_written,
                        device, outputs.wants_timeline() ? &timeline : nullptr));
  NMM_ASSIGN(const std::vector<LatencyVerdict> verdicts,
             compare_latency(report.run, device, baseline, flags.expected_us));
  NMM_ASSIGN(const int refused, add_other_runs(report, flags, traced, what_ifs, device,
                                               folder.path() / "other.trace"));
  if (refused != 0) return refused;
  NMM_TRY(copy_to(outputs.trace, path));
  NMM_TRY(copy_to(outputs.values, values_beside(path, flags.call.outputs)));
  NMM_TRY(write(outputs, report, device, timeline, verdicts, flags.lines));
  NMM_TRY(folder.remove());
  const bool fast = report_slow_kernel(verdicts);
  return values_are_wrong(report.run) || !fast ? 1 : 0;
}

}  // namespace

void add_nki(Program& program) {
  auto flags = std::make_shared<NkiFlags>();
  CLI::App* command = program.add(
      CommandGroup::kKernels, "nki", "Run your own NKI kernel on a simulated Trainium core",
      {"neuronmm nki kernel.py:add --arg a=bf16[128,512] --arg b=bf16[128,512]",
       "neuronmm nki --from-trace kept.json --what-if hbm_bandwidth=2x"});
  add_nki_flags(command, *flags);
  command->footer(
      "A tensor is x=bf16[4096,8192], with :zeros, :arange or :normal:SEED behind it,\n"
      "or x=@FILE.npy, x=@FILE.npz:NAME or x=@FILE.safetensors:NAME.\n"
      "Types of tensors: bf16, fp16, fp32, tf32, fp8e4, fp8e5, i8, u8, i16, u16, i32\n"
      "and u32. A change is buffers=3, buffers.NAME=3, dma_row=2x, reloads=none,\n"
      "round_trips=none, transfers=none or a parameter of the device, as\n"
      "hbm_bandwidth=2x.");
  program.set_usage(command, "(FILE.py:FUNCTION | DIR | --from-trace FILE)");
  command->parse_complete_callback([flags] { check_nki_flags(*flags); });
  program.set_run(command, [flags] { return run_nki(*flags); });
}

}  // namespace neuronmm::apps
