// neuronmm nki: how long anybody's NKI kernel takes on a simulated Trainium core, and which of its
// lines the time goes to.

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/mapped_file.h"
#include "kernel/nki_report.h"
#include "kernel/nki_tracer.h"
#include "kernel/nki_what_if.h"
#include "output_file.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

struct NkiFlags {
  std::string kernel, from_trace, device, reference, compare, timeline, save, json;
  std::vector<std::string> args, kwargs, what_ifs;
  bool values = false;
  int64_t seed = 0;
};

// The tracer's flags. Its values are compared for the kernel itself and not for what stands beside
// it.
std::vector<std::string> tracer_flags(const NkiFlags& flags, bool values) {
  std::vector<std::string> out = {"--device", flags.device.empty() ? "trn2" : flags.device};
  for (const std::string& arg : flags.args) out.insert(out.end(), {"--arg", arg});
  for (const std::string& kwarg : flags.kwargs) out.insert(out.end(), {"--kwarg", kwarg});
  if (!values) return out;
  if (flags.values) out.emplace_back("--values");
  if (!flags.reference.empty()) out.insert(out.end(), {"--ref", flags.reference});
  out.insert(out.end(), {"--seed", std::to_string(flags.seed)});
  return out;
}

Result<trace::TraceFile> trace_kernel(const NkiFlags& flags, const std::string& kernel, bool values,
                                      const fs::path& into) {
  NMM_TRY(run_tracer({kernel, tracer_flags(flags, values), into}));
  return trace::TraceFile::open(into);
}

// A kernel of a file, or a trace that was kept.
Result<trace::TraceFile> open_other(const NkiFlags& flags, const fs::path& into) {
  if (flags.compare.find(".py:") == std::string::npos) return trace::TraceFile::open(flags.compare);
  return trace_kernel(flags, flags.compare, false, into);
}

Result<std::vector<WhatIf>> read_what_ifs(const NkiFlags& flags,
                                          const simulator::DeviceSpec& device) {
  std::vector<WhatIf> out;
  for (const std::string& text : flags.what_ifs) {
    NMM_ASSIGN(WhatIf what_if, read_what_if(text, device));
    out.push_back(std::move(what_if));
  }
  return out;
}

// The file's bytes, written as a whole.
Status save_trace(OutputFile& file, const fs::path& from) {
  if (!file.wanted()) return {};
  NMM_ASSIGN(const auto mapped, io::MappedFile::open(from));
  const auto bytes = mapped->bytes();
  return file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<int> run_nki(const NkiFlags& flags) {
  if (flags.kernel.empty() == flags.from_trace.empty()) {
    return fail("expected FILE.py:KERNEL or --from-trace FILE");
  }
  // What can be refused is refused before the kernel runs.
  if (!flags.device.empty()) {
    NMM_ASSIGN(const auto known, simulator::find_device(flags.device));
    NMM_ASSIGN(const auto understood, read_what_ifs(flags, known));
    static_cast<void>(understood);
  }
  NMM_ASSIGN(OutputFile timeline_file, OutputFile::open(flags.timeline));
  NMM_ASSIGN(OutputFile kept, OutputFile::open(flags.save));
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  NMM_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
  const fs::path traced =
      flags.from_trace.empty() ? folder.path() / "kernel.trace" : fs::path(flags.from_trace);
  NMM_ASSIGN(const trace::TraceFile file, flags.from_trace.empty()
                                              ? trace_kernel(flags, flags.kernel, true, traced)
                                              : trace::TraceFile::open(traced));
  NMM_ASSIGN(const simulator::DeviceSpec device,
             simulator::find_device(flags.device.empty() ? file.header().device : flags.device));
  simulator::Trace timeline;
  trace::TraceOptions options;
  if (timeline_file.wanted()) options.timing.trace = &timeline;
  NkiReport report{file.header(), device, {file.header().kernel, {}}, {}};
  NMM_ASSIGN(report.run.timing, trace::simulate(file, device, options));
  NMM_ASSIGN(const std::vector<WhatIf> what_ifs, read_what_ifs(flags, device));
  for (const WhatIf& what_if : what_ifs) {
    NMM_ASSIGN(auto timing,
               trace::simulate(file, what_if.device, {.timing = {}, .rotation = what_if.rotation}));
    report.others.push_back({what_if.text, std::move(timing)});
  }
  if (!flags.compare.empty()) {
    NMM_ASSIGN(const trace::TraceFile other, open_other(flags, folder.path() / "other.trace"));
    NMM_ASSIGN(auto timing, trace::simulate(other, device));
    report.others.push_back({flags.compare, std::move(timing)});
  }
  NMM_TRY(save_trace(kept, traced));
  if (timeline_file.wanted()) {
    NMM_TRY(timeline_file.write(timeline.json(file.header().kernel, device.name)));
  }
  NMM_TRY(writer.write_json(to_json(report)));
  writer.print("{}", to_text(report));
  return 0;
}

}  // namespace

void add_nki(Program& program) {
  auto flags = std::make_shared<NkiFlags>();
  CLI::App* command =
      program.add(CommandGroup::kKernels, "nki",
                  "Time anybody's NKI kernel on a simulated Trainium core, line by line");
  command->add_option("kernel", flags->kernel, "the kernel: a Python file and a function in it")
      ->type_name("FILE.py:KERNEL");
  command->add_option("--arg", flags->args, "a tensor argument, such as x=bf16[4096,8192]")
      ->type_name("NAME=DTYPE[SHAPE]")
      ->allow_extra_args(false);
  command->add_option("--kwarg", flags->kwargs, "another argument, a Python literal")
      ->type_name("NAME=LITERAL")
      ->allow_extra_args(false);
  command
      ->add_option("--device", flags->device,
                   "NeuronCore-v2, v3 or v4 (default: trn2, or the trace's)")
      ->check(CLI::IsMember({"trn1", "trn2", "trn3"}));
  command->add_option("--from-trace", flags->from_trace, "time a trace that was kept, instead")
      ->type_name("FILE");
  command->add_flag("--values", flags->values, "also compute it, on random inputs");
  command->add_option("--ref", flags->reference, "compare the values with this function's")
      ->type_name("MODULE:FN");
  command->add_option("--seed", flags->seed, "of the random inputs")->capture_default_str();
  command->add_option("--compare", flags->compare, "another kernel or kept trace beside it")
      ->type_name("FILE.py:KERNEL|FILE");
  command
      ->add_option("--what-if", flags->what_ifs,
                   "the latency with buffers=N, or a parameter of the device changed: "
                   "dma_bandwidth=2x, tensor_clock=2.8")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--trace", flags->timeline, "write a timeline that ui.perfetto.dev opens");
  command->add_option("--save-trace", flags->save, "keep the trace of the kernel");
  add_json_option(command, flags->json);
  program.set_run(command, [flags] { return run_nki(*flags); });
}

}  // namespace neuronmm::apps
