#pragma once
// Reads and checks the flags that describe a kernel: its shape, dtype, tiling and device. The
// commands `simulate`, `tune` and `emit` share them.

#include <string>

#include "base/result.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/tile/program.h"
#include "trainium/tuner/tuner.h"

namespace CLI {
class App;
}

namespace neuronmm::apps {

struct KernelFlags {
  std::string kernel, shape, tiling, cache;
  std::string device{simulator::kDefaultDevice};
  std::string dtype = "bf16", left = "transposed", accumulate = "fp32";
  int64_t cores = 1;
};
void add_kernel_flags(CLI::App* command, KernelFlags& flags);

// Reads the flags as a tuning problem. The search does not change the parameters that --tiling
// gives.
Result<tuner::Problem> read_problem(const KernelFlags& flags);

// The kernel that the user asks for. With several cores, shape, program and device are those of one
// core.
struct KernelSettings : kernels::Instance {
  bool tiling_given = false;
  simulator::DeviceSpec device;
  tile::Limits limits;  // The device's limits.
  tile::Program program;
  int64_t cores = 1;
};
Result<KernelSettings> read_settings(const KernelFlags& flags);
// Returns the settings with the shape of all cores together and a program that loops over the
// cores.
Result<KernelSettings> settings_of_all_cores(const KernelSettings& settings);

// For example "M 4096, K 8192, r 4096, N 16384".
std::string shape_text(const KernelSettings& settings);
// For example "BM=8,BK=4", as --tiling takes it.
std::string tiling_text(const kernels::Tiling& tiling);
std::string_view dtype_text(DType dtype);  // "bf16" or "fp32".

}  // namespace neuronmm::apps
