#pragma once
// Reads and checks the flags that describe a kernel: its shape, dtype, tiling and device. The
// commands `simulate`, `tune` and `emit` share them, and `export` fills them for its own kernels.
//
// Errors of read_problem() and read_settings(): an unknown kernel or device, a shape or tiling that
// the kernel does not take, more cores than a launch has, and more than 2^24 matmul instructions.

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

// The values of the flags, as text that is not checked yet.
struct KernelFlags {
  std::string kernel, shape, tiling, cache;
  std::string device{simulator::kDefaultDevice};
  std::string dtype = "bf16", left = "transposed", accumulate = "fp32";
  int64_t cores = 1;
};
// Adds the flags. `flags` receives their values and must outlive the command.
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
// Reads the flags as the settings of one kernel. Without --tiling, the default tiling is reduced
// until SBUF holds it. With --tiling auto, the fastest tiling comes from the cache, or from a
// search that is then stored there (tuned.h).
Result<KernelSettings> read_settings(const KernelFlags& flags);
// Returns the settings with the shape of all cores together and a program that loops over the
// cores.
Result<KernelSettings> settings_of_all_cores(const KernelSettings& settings);

// Returns for example "M 4096, K 8192, r 4096, N 16384".
std::string shape_text(const KernelSettings& settings);
// Returns for example "BM=8,BK=4", as --tiling takes it, or "none" for a kernel without parameters.
std::string tiling_text(const kernels::Tiling& tiling);
std::string_view dtype_text(DType dtype);  // Returns "bf16" or "fp32".

}  // namespace neuronmm::apps
