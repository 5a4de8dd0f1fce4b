#include <iostream>
#include <iterator>
#include <new>

#include <fmt/core.h>

#include "base/parallel.h"
#include "commands.h"
#include "cpu/backend.h"
#include "io/folder_writer.h"
#include "ops/reference.h"
#include "trainium/device/backend.h"
#include "tuned.h"

namespace neuronmm::apps {
namespace {

constexpr int kUsageError = 2;
constexpr int kInterruptedExit = 130;  // 128 + SIGINT, what shells report

// A cache or a model larger than the memory is input's doing: an error like any other.
Result<int> run_in_memory(const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return fail("out of memory: a smaller model, context or --max-new-tokens may fit");
  }
}

}  // namespace

Program::Program()
    : cli_("neuronmm: low-rank compression and fast inference of large language models",
           "neuronmm") {
  cli_.require_subcommand(1);
  cli_.set_version_flag("--version", "neuronmm 0.1.0");
  cli_.get_formatter()->column_width(34);
}

CLI::App* Program::add(const std::string& name, const std::string& description) {
  return cli_.add_subcommand(name, description);
}

void Program::set_run(CLI::App* command, Run run) { runs_.emplace_back(command, std::move(run)); }

int Program::run(int argc, char** argv) {
  try {
    cli_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli_.exit(error) == 0 ? 0 : kUsageError;
  }
  for (const auto& [command, run] : runs_) {
    if (!command->parsed()) continue;
    const Result<int> result = run_in_memory(run);
    if (result.ok()) return result.value();
    fmt::print(stderr, "neuronmm {}: {}\n", command->get_name(), result.error().message);
    return result.error().kind == Error::Kind::kInterrupted ? kInterruptedExit : 1;
  }
  return kUsageError;
}

void add_device_options(CLI::App* command, DeviceOptions& options, Devices devices) {
  std::vector<std::string> names = {"cpu", "reference"};
  std::string help = "what computes: cpu (SIMD), reference (slow, the oracle)";
  if (devices == Devices::kHostAndSimulated) {
    for (const auto& device : simulator::devices()) names.emplace_back(device.name);
    help += ", trn1, trn2, trn3 (a simulated NeuronCore: its values in the MLPs, predicted times)";
  }
  command->add_option("--device", options.device, help)
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_option("--threads", options.threads, "threads; 0 = all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

Result<std::unique_ptr<ops::Backend>> make_backend(const DeviceOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  if (options.device == "reference") return ops::make_reference_backend();
  if (!options.simulated()) return cpu::make_backend();
  NMM_ASSIGN(const auto device, simulator::find_device(options.device));
  return device::make_backend(device, tuned_tilings(device), cpu::make_backend());
}

Result<std::unique_ptr<ops::Backend>> make_latency_backend(const DeviceOptions& options) {
  if (!options.simulated()) return make_backend(options);
  NMM_ASSIGN(const auto device, simulator::find_device(options.device));
  return device::make_timing_backend(device, tuned_tilings(device));
}

Result<std::string> read_text_argument(const std::string& path_or_dash) {
  if (path_or_dash != "-") return io::read_text_file(path_or_dash);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

}  // namespace neuronmm::apps
