#include "kernel/nki_flags.h"

#include <filesystem>

#include "byte_size.h"
#include "commands.h"
#include "kernel/latency_gate.h"
#include "kernel/nki_sweep.h"
#include "kernel/sdk_option.h"
#include "kernel/what_if.h"
#include "report_writer.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

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
      ->add_option("--ref", call.reference, "Compare values with FILE.py:FUNCTION or an expression")
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

void add_nki_flags(CLI::App* command, NkiFlags& flags) {
  add_tracer_flags(command, flags.call);
  command->add_option("--from-trace", flags.from_trace, "Time a kept trace instead of a kernel")
      ->type_name("FILE")
      ->group(kInput);
  command->add_option("--compare", flags.compare, "Compare with this kernel or kept trace")
      ->type_name("KERNEL")
      ->group(kInput);
  command->add_option("--measured", flags.measured, "Compare with a profile of neuron-explorer")
      ->type_name("FILE")
      ->group(kInput);
  add_report_flags(command, flags);
  command
      ->add_option("--what-if", flags.what_ifs,
                   "Also simulate with a change, as dma_row=2x; repeatable")
      ->type_name("CHANGE")
      ->allow_extra_args(false)
      ->group(kSpeed);
  command
      ->add_option("--sweep", flags.sweep,
                   "Run once per value of a parameter or constant, as TILE=256,512")
      ->type_name("NAME=V1,V2,...")
      ->group(kSpeed);
  command
      ->add_option("--baseline", flags.baseline, "Exit with 1 if slower than this earlier --json")
      ->type_name("FILE")
      ->group(kQuality);
  command
      ->add_option("--expect-us", flags.expected_us,
                   "Exit with 1 if slower than T us and the error band")
      ->check(CLI::PositiveNumber)
      ->type_name("T")
      ->group(kQuality);
  command
      ->add_flag("--as-written", flags.as_written,
                 "Run a legacy kernel in the order of its program")
      ->group(kRare);
}

// Checks what can be checked before the kernel runs. A what-if depends on the device, which may be
// known only later.
void check_nki_flags(const NkiFlags& flags) {
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
    if (!parsed.ok()) throw CLI::ValidationError(parsed.error().message);
  }
}

}  // namespace neuronmm::apps
