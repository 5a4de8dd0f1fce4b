// `neuronmm simulate` runs one kernel on one simulated NeuronCore. It reports the latency, the
// bytes and the busy engines and, on request, computes the kernel's values.

#include <fmt/core.h>

#include "commands.h"
#include "kernel/kernel_check.h"
#include "kernel/simulate_report.h"
#include "output_file.h"
#include "report_writer.h"
#include "trainium/reference/errors.h"
#include "trainium/tile/printer.h"
#include "trainium/trace/launch.h"

namespace neuronmm::apps {
namespace {

struct SimulateFlags {
  KernelFlags kernel;
  std::string trace, json;
  bool values = false, print_program = false;
};

// Returns the device with the fixed cost of a launch on the kernel's cores, which `nki` counts for
// the emitted kernel, too.
simulator::DeviceSpec device_of_launch(const KernelSettings& settings) {
  trace::Header header;
  header.cores = settings.cores;
  return trace::device_of_launch(settings.device, header);
}

// Refuses what it can before the simulation: values of a kernel that is too large, and files that
// cannot be written.
Result<int> run_simulate(const SimulateFlags& flags) {
  NMM_ASSIGN(KernelSettings settings, read_settings(flags.kernel));
  settings.device = device_of_launch(settings);
  NMM_ASSIGN(const KernelSettings all, settings_of_all_cores(settings));
  if (flags.values) NMM_TRY(check_values_size(all));
  NMM_ASSIGN(OutputFile timeline_file, OutputFile::open(flags.trace));
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  SimulateReport report;
  NMM_ASSIGN(report.check, check_program(settings));
  if (flags.print_program) {
    writer.print("{}", tile::print(settings.program));
    std::fflush(writer.text());
  }
  simulator::Timeline timeline;
  simulator::TimingOptions options;
  options.model_flops = reference::problem_flops(*settings.kernel, settings.shape);
  if (timeline_file.wanted()) options.timeline = &timeline;
  NMM_ASSIGN(report.timing, simulator::simulate(settings.program, settings.device, options));
  if (!report.timing.remedies.empty()) report.changes = changes_that_fit(settings);
  if (flags.values) {
    NMM_ASSIGN(report.values, compare_values(all));
  }
  if (timeline_file.wanted()) {
    NMM_TRY(timeline_file.write(timeline.json(settings.kernel->name, settings.device.name)));
  }
  if (writer.wants_json()) NMM_TRY(writer.write_json_text(to_json(settings, report)));
  writer.print("{}{}", flags.print_program ? "\n" : "", to_text(settings, report));
  if (timeline.total() > timeline.kept()) {
    writer.print("\ntrace: the first {} of {} events\n", timeline.kept(), timeline.total());
  }
  // Exit code 1 tells scripts that values are outside their bounds.
  return report.values && report.values->worst_share > 1 ? 1 : 0;
}

}  // namespace

void add_simulate(Program& program) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command =
      program.add(CommandGroup::kKernels, "simulate",
                  "Run a kernel on a simulated Trainium core: latency, bytes, engines",
                  {"neuronmm simulate xuv --shape 512,512,256,512",
                   "neuronmm simulate xuv --shape 512,512,256,512 --values --trace t.json"});
  add_kernel_flags(command, flags->kernel);
  command->add_flag("--values", flags->values, "Also compute the values, and compare with fp64")
      ->group(kQuality);
  command->add_flag("--program", flags->print_program, "Also print the tile program")
      ->group(kOutput);
  command->add_option("--trace", flags->trace, "Write a timeline that ui.perfetto.dev opens")
      ->type_name("FILE")
      ->group(kOutput);
  add_json_option(command, flags->json, "the measurements");
  program.set_run(command, [flags] { return run_simulate(*flags); });
}

}  // namespace neuronmm::apps
