// The options that select a device, and the backend they select. No other file chooses a backend.

#include "base/parallel.h"
#include "commands.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "kernel/tuned.h"
#include "ops/reference.h"
#include "processes.h"
#include "trainium/device/backend.h"

namespace neuronmm::apps {

void add_device_options(CLI::App* command, DeviceOptions& options, Devices devices) {
  std::vector<std::string> names = {"cpu", "reference"};
  std::string help = "device that computes: cpu (SIMD), reference (slow, for checks)";
  if (devices == Devices::kHostAndSimulated) {
    for (const auto& device : simulator::devices()) names.emplace_back(device.name);
    help += ", trn1, trn2, trn3 (a simulated NeuronCore: its values in the MLPs, predicted times)";
  }
  command->add_option("--device", options.device, help)
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_option("--threads", options.threads, "threads to compute with; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      ->add_option(
          "--activations", options.activations,
          "format of activations: fp32, or bf16 in products with bf16 weights on CPUs that "
          "multiply bf16 fast (Intel's AMX, AMD's AVX512-BF16, ARM's BF16), for up to three times "
          "the speed of prefill; auto: bf16 with AMX, else fp32")
      ->check(CLI::IsMember({"auto", "fp32", "bf16"}))
      ->capture_default_str();
}

Result<std::unique_ptr<ops::Backend>> make_backend(const DeviceOptions& options) {
  return world_communicator().processes() > 1 ? make_shared_backend(options)
                                              : make_own_backend(options);
}

Result<std::unique_ptr<ops::Backend>> make_own_backend(const DeviceOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  if (options.device == "reference") return ops::make_reference_backend();
  cpu::KernelChoice choice;
  if (options.activations == "auto") choice = cpu::default_choice();
  if (options.activations == "bf16") choice.most_dot_products = cpu::DotProducts::kInt8AndBf16;
  auto host = cpu::make_backend(cpu::best_kernels(choice));
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
