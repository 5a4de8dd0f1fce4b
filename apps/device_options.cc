// The options that select a device, and the backend they select. No other file chooses a backend.

#include <fmt/format.h>

#include "base/memory_domains.h"
#include "base/memory_limit.h"
#include "base/parallel.h"
#include "commands.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "flags.h"
#include "kernel/tuned.h"
#include "ops/reference.h"
#include "processes.h"
#include "trainium/device/backend.h"

namespace neuronmm::apps {

namespace {

// The share of the memory limit that the weights of a model may take. Assumed: the rest is enough
// for keys and values, activations and buffers.
constexpr double kShareOfWeights = 0.8;

// Returns the memory that weights may take, from the smallest of the limits that are known. The
// processes of this run on one machine share its memory and the container's.
cpu::WeightMemory weight_memory(const DeviceOptions& options) {
  const int processes = world_communicator().processes_of_host();
  int64_t bytes = machine_memory_bytes() / processes;
  std::string limit = "this machine has";
  const auto take = [&](int64_t other, const std::string& of_other) {
    if (other >= bytes) return;
    bytes = other;
    limit = of_other;
  };
  if (const auto container = container_memory_limit()) {
    take(container->bytes / processes, fmt::format("{} allows", container->file));
  }
  // A server that was given no limit has one of its own in a container.
  if (options.memory_bytes > 0) take(options.memory_bytes, "this server may take");
  constexpr double kMega = 1e6;
  return {static_cast<int64_t>(kShareOfWeights * static_cast<double>(bytes)),
          fmt::format("{} {:.1f} MB{}", limit, static_cast<double>(bytes) / kMega,
                      processes > 1 ? fmt::format(" for each of {} processes", processes) : "")};
}

}  // namespace

void add_device_options(CLI::App* command, DeviceOptions& options, Devices devices) {
  std::vector<std::string> names = {"cpu", "reference"};
  std::string help = "Compute on cpu, or on reference to check";
  if (devices == Devices::kHostAndSimulated) {
    for (const auto& device : simulator::devices()) names.emplace_back(device.name);
    help = "Use cpu, reference or simulate trn1 to trn3";
  }
  command->add_option("--device", options.device, help)
      ->check(CLI::IsMember(names))
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kSpeed);
  add_threads_option(command, options.threads);
  command
      ->add_option("--activations", options.activations, "Keep activations in fp32, bf16 or auto")
      ->check(CLI::IsMember({"auto", "fp32", "bf16"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kSpeed);
}

void add_numa_option(CLI::App* command, DeviceOptions& options) {
  command->add_flag("--numa", options.numa, "Bind threads; copy weights to each NUMA node")
      ->group(kSpeed);
}

void add_kv_option(CLI::App* command, DeviceOptions& options) {
  command->add_option("--kv", options.kv, "Keep keys and values in auto or int8")
      ->check(CLI::IsMember({"auto", "int8"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kSpeed);
}

Result<std::unique_ptr<ops::Backend>> make_backend(const DeviceOptions& options) {
  return world_communicator().processes() > 1 ? make_shared_backend(options)
                                              : make_own_backend(options);
}

Result<std::unique_ptr<ops::Backend>> make_own_backend(const DeviceOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  // A bound thread sees the cores of its domain alone, so a second backend keeps the binding.
  if (options.numa && bound_domains().empty()) bind_threads(memory_domains(), num_threads());
  if (options.device == "reference") return ops::make_reference_backend();
  cpu::KernelChoice choice;
  if (options.activations == "auto") choice = cpu::default_choice();
  if (options.activations == "bf16") choice.most_dot_products = cpu::DotProducts::kInt8AndBf16;
  const auto kv = options.kv == "int8" ? cpu::KeysAndValues::kInt8 : cpu::KeysAndValues::kAuto;
  // Who asks for fp32 wants exactly the values of the model.
  const auto foreign =
      options.activations == "fp32" ? cpu::ForeignWeights::kExact : cpu::ForeignWeights::kNearest;
  auto host = cpu::make_backend(cpu::best_kernels(choice), kv, foreign, weight_memory(options));
  if (!options.simulated()) return host;
  NMM_ASSIGN(const auto device, simulator::find_device(options.device));
  return device::make_backend(device, tuned_tilings(device), std::move(host));
}

// A simulated device computes no values here, because times do not depend on them. Models of any
// size are therefore timed in seconds.
Result<std::unique_ptr<ops::Backend>> make_own_latency_backend(const DeviceOptions& options) {
  if (!options.simulated()) return make_own_backend(options);
  NMM_ASSIGN(const auto device, simulator::find_device(options.device));
  return device::make_timing_backend(device, tuned_tilings(device));
}

Result<std::unique_ptr<ops::Backend>> make_latency_backend(const DeviceOptions& options) {
  return world_communicator().processes() > 1 ? make_shared_backend(options)
                                              : make_own_latency_backend(options);
}

}  // namespace neuronmm::apps
