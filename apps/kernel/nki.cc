// `neuronmm nki` runs a user's own NKI kernel on one simulated NeuronCore. It reports the latency,
// the engines, the bytes, and the source lines that the time goes to.

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "byte_size.h"
#include "commands.h"
#include "io/mapped_file.h"
#include "kernel/latency_gate.h"
#include "kernel/nki_folder.h"
#include "kernel/nki_page.h"
#include "kernel/nki_report.h"
#include "kernel/nki_sweep.h"
#include "kernel/nki_tracer.h"
#include "kernel/sdk_option.h"
#include "kernel/trace_folder.h"
#include "kernel/what_if.h"
#include "message.h"
#include "output_file.h"
#include "plot/page.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using simulator::DeviceSpec;

struct NkiFlags {
  TracerCall call;
  std::string from_trace, compare, measured, trace, json, html, save_trace, sweep, baseline;
  std::optional<double> expected_us;
  std::vector<std::string> what_ifs;
  size_t lines = 12;
  bool as_written = false;
};

// A traced kernel, from a Python file or from a stored trace.
struct Traced {
  std::optional<trace::TraceFile> file;  // Empty if the kernel fails; the tracer then says how.
  TracerReport tracer;
};

// Returns where the tracer writes the results, if `outputs` names their file.
fs::path values_beside(const fs::path& trace, const std::string& outputs) {
  if (outputs.empty()) return {};
  return trace.string() + fs::path(outputs).extension().string();
}

// Runs a kernel of a Python file and puts its trace at `path`. Any other name is that of a stored
// trace. A file without a kernel's name also goes to the tracer, whose message says what is
// missing.
Result<Traced> trace_of(const std::string& kernel, const NkiFlags& flags, const fs::path& path) {
  Traced traced;
  fs::path file = kernel;
  const bool python = kernel.find(".py:") != std::string::npos || kernel.ends_with(".py");
  if (kernel != flags.from_trace && python) {
    TracerCall call = flags.call;
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

// Prints the message of a tracer that made no trace. Returns the exit code: 2 if the command line
// is wrong, otherwise 1, whatever exit code the kernel chose.
int report_refusal(const TracerReport& tracer) {
  print_message("neuronmm nki: {}\n", refusal_of(tracer));
  return tracer.exit_code == 2 ? 2 : 1;
}

Result<double> latency_ms(const trace::TraceFile& file, const DeviceSpec& device, bool as_written) {
  trace::TraceOptions options;
  options.as_written = as_written;
  NMM_ASSIGN(const trace::TraceTiming timing, trace::simulate(file, device, options));
  return timing.timing.summary.milliseconds();
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
  NkiFlags with_value = flags;
  with_value.call = call;
  NMM_ASSIGN(TraceFolder folder, TraceFolder::create());
  NMM_ASSIGN(const Traced traced,
             trace_of(call.kernel, with_value, folder.path() / "kernel.trace"));
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
             trace_of(runs ? flags.call.kernel : flags.from_trace, flags, path));
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
  if (!flags.compare.empty()) {
    NkiFlags without_values = flags;
    without_values.call.outputs.clear();
    NMM_ASSIGN(const Traced other,
               trace_of(flags.compare, without_values, folder.path() / "other.trace"));
    if (!other.file) return report_refusal(other.tracer);
    NMM_ASSIGN(report.other, run_kernel(flags.compare, other, flags.as_written, device, nullptr));
  }
  for (const WhatIf& what_if : what_ifs) {
    report.what_ifs.push_back(simulate_what_if(traced, report.run.is_as_written, what_if));
  }
  report.advice = advise(*traced.file, report.run.timing, report.run.is_as_written, device);
  NMM_TRY(copy_to(outputs.trace, path));
  NMM_TRY(copy_to(outputs.values, values_beside(path, flags.call.outputs)));
  NMM_TRY(write(outputs, report, device, timeline, verdicts, flags.lines));
  NMM_TRY(folder.remove());
  const bool fast = report_slow_kernel(verdicts);
  return values_are_wrong(report.run) || !fast ? 1 : 0;
}

void check(const char* option, const Status& status) {
  if (!status.ok()) throw CLI::ValidationError(option, status.error().message);
}

// Refuses options that say nothing of a sweep or of a folder of tests.
void check_sweep(const NkiFlags& flags) {
  std::error_code error;
  const bool folder = fs::is_directory(flags.call.kernel, error);
  if (folder && (!flags.baseline.empty() || flags.expected_us)) {
    throw CLI::ValidationError(flags.expected_us ? "--expect-us" : "--baseline",
                               "expected FILE.py:KERNEL, found the folder " + flags.call.kernel);
  }
  check("--sweep",
        check_sweep_options(flags.sweep, {{"--from-trace", !flags.from_trace.empty()},
                                          {"--compare", !flags.compare.empty()},
                                          {"--measured", !flags.measured.empty()},
                                          {"--trace", !flags.trace.empty()},
                                          {"--html", !flags.html.empty()},
                                          {"--save-trace", !flags.save_trace.empty()},
                                          {"--save-outputs", !flags.call.outputs.empty()},
                                          {"--what-if", !flags.what_ifs.empty()},
                                          {"--baseline", !flags.baseline.empty()},
                                          {"--expect-us", flags.expected_us.has_value()},
                                          {"folder of tests", folder}}));
  check("--expect-us", check_expected_us(flags.expected_us));
  check("--baseline", check_baseline(flags.baseline, flags.json));
}

// Checks what can be checked before the kernel runs. A what-if depends on the device, which may be
// known only later.
void check_flags(const NkiFlags& flags) {
  if (flags.call.kernel.empty() == flags.from_trace.empty()) {
    throw CLI::ValidationError("KERNEL", "expected FILE.py:KERNEL or --from-trace FILE");
  }
  check_sweep(flags);
  const std::string& values = flags.call.outputs;
  if (!values.empty() && !flags.from_trace.empty()) {
    throw CLI::ValidationError("--save-outputs",
                               "expected FILE.py:KERNEL, because a kept trace has no values");
  }
  if (!values.empty() && !values.ends_with(".npz") && !values.ends_with(".npy")) {
    throw CLI::ValidationError("--save-outputs", "expected FILE.npz or FILE.npy, found " + values);
  }
  if (!flags.call.sdk.empty() && !flags.from_trace.empty()) {
    throw CLI::ValidationError(
        "--sdk", "expected FILE.py:KERNEL, because a kept trace has the release of its own run");
  }
  const std::string device =
      flags.call.device.empty() ? std::string(simulator::kDefaultDevice) : flags.call.device;
  for (const std::string& text : flags.what_ifs) {
    const auto parsed = parse_what_if(text, simulator::find_device(device).value());
    if (!parsed.ok()) throw CLI::ValidationError("--what-if", parsed.error().message);
  }
}

void add_tracer_flags(CLI::App* command, TracerCall& call) {
  command
      ->add_option("KERNEL", call.kernel,
                   "Kernel to run, as FILE.py:FUNCTION, or a folder of tests")
      ->group(kInput);
  command->add_option("--arg", call.arguments, "Pass a tensor, as x=bf16[4096,8192]; repeatable")
      ->type_name("NAME=TENSOR")
      ->allow_extra_args(false)
      ->group(kInput);
  command->add_option("--kwarg", call.keyword_arguments, "Pass a Python literal; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group(kInput);
  command->add_option("--device", call.device, "Simulate a core of trn1, trn2 or trn3")
      ->check(CLI::IsMember({"trn1", "trn2", "trn3"}))
      ->type_name("NAME")
      ->default_str("trn2")
      ->group(kSpeed);
  add_sdk_option(command, call.sdk);
  command->add_flag("--values", call.values, "Also compute the values, from random inputs")
      ->group(kQuality);
  command
      ->add_option("--ref", call.reference, "Compare values with MODULE:FUNCTION or an expression")
      ->type_name("REF")
      ->group(kQuality);
  command->add_option("--tolerance", call.tolerance, "Allow a relative error of X")
      ->check(CLI::NonNegativeNumber)
      ->group(kQuality);
  command->add_option("--seed", call.seed, "Seed of the random inputs")
      ->capture_default_str()
      ->group(kRare);
  command
      ->add_option("--max-instructions", call.most_instructions,
                   "Stop the kernel after N instructions")
      ->check(CLI::PositiveNumber)
      ->default_str("20000000")
      ->group(kRare);
  command
      ->add_option("--max-seconds", call.most_seconds, "Stop the kernel's Python after S seconds")
      ->check(CLI::PositiveNumber)
      ->type_name("S")
      ->default_str("600")
      ->group(kRare);
  command->add_option("--max-memory", call.most_bytes, "Stop the kernel's Python beyond SIZE")
      ->transform(byte_size())
      ->check(CLI::PositiveNumber)
      ->type_name("SIZE")
      ->default_str("3/4 of the memory")
      ->group(kRare);
}

void add_report_flags(CLI::App* command, NkiFlags& flags) {
  add_json_option(command, flags.json, "the measurements");
  command->add_option("--html", flags.html, "Write a page with plots")
      ->type_name("FILE")
      ->group(kOutput);
  command->add_option("--trace", flags.trace, "Write a timeline that ui.perfetto.dev opens")
      ->type_name("FILE")
      ->group(kOutput);
  command->add_option("--save-outputs", flags.call.outputs, "Write the results to .npz or .npy")
      ->type_name("FILE")
      ->group(kOutput);
  command->add_option("--save-trace", flags.save_trace, "Keep the recorded instructions")
      ->type_name("FILE")
      ->group(kOutput);
  command->add_option("--lines", flags.lines, "List N source lines")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kOutput);
}

}  // namespace

void add_nki(Program& program) {
  auto flags = std::make_shared<NkiFlags>();
  CLI::App* command = program.add(
      CommandGroup::kKernels, "nki", "Run your own NKI kernel on a simulated Trainium core",
      {"neuronmm nki kernel.py:add --arg a=bf16[128,512] --arg b=bf16[128,512]",
       "neuronmm nki --from-trace kept.json --what-if hbm_bandwidth=2x"});
  add_tracer_flags(command, flags->call);
  command->add_option("--from-trace", flags->from_trace, "Time a kept trace instead of a kernel")
      ->type_name("FILE")
      ->group(kInput);
  command->add_option("--compare", flags->compare, "Compare with this kernel or kept trace")
      ->type_name("KERNEL")
      ->group(kInput);
  command->add_option("--measured", flags->measured, "Compare with a profile of neuron-explorer")
      ->type_name("FILE")
      ->group(kInput);
  add_report_flags(command, *flags);
  command
      ->add_option("--what-if", flags->what_ifs,
                   "Also simulate with a change, as dma_row=2x; repeatable")
      ->type_name("CHANGE")
      ->allow_extra_args(false)
      ->group(kSpeed);
  command
      ->add_option("--sweep", flags->sweep,
                   "Run once per value of a parameter or constant, as TILE=256,512")
      ->type_name("NAME=V1,V2,...")
      ->group(kSpeed);
  command
      ->add_option("--baseline", flags->baseline, "Exit with 1 if slower than this earlier --json")
      ->type_name("FILE")
      ->group(kQuality);
  command
      ->add_option("--expect-us", flags->expected_us,
                   "Exit with 1 if slower than T us and the error band")
      ->check(CLI::PositiveNumber)
      ->type_name("T")
      ->group(kQuality);
  command
      ->add_flag("--as-written", flags->as_written,
                 "Run a legacy kernel in the order of its program")
      ->group(kRare);
  command->footer(
      "A tensor is x=bf16[4096,8192], with :zeros, :arange or :normal:SEED behind it,\n"
      "or x=@FILE.npy, x=@FILE.npz:NAME or x=@FILE.safetensors:NAME.\n"
      "Types of tensors: bf16, fp16, fp32, tf32, fp8e4, fp8e5, i8, u8, i16, u16, i32\n"
      "and u32. A change is buffers=3, buffers.NAME=3, dma_row=2x, reloads=none,\n"
      "round_trips=none, transfers=none or a parameter of the device, as\n"
      "hbm_bandwidth=2x.");
  program.set_usage(command, "(FILE.py:FUNCTION | DIR | --from-trace FILE)");
  command->parse_complete_callback([flags] { check_flags(*flags); });
  program.set_run(command, [flags] { return run_nki(*flags); });
}

}  // namespace neuronmm::apps
