#pragma once
// What the user asks of a kernel (shape, dtype, tiling, device), read from flags and checked.

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

// --tiling as parameters that a search leaves alone.
Result<tuner::Problem> read_problem(const KernelFlags& flags);

// Of several cores: shape, program and device are one core's.
struct KernelSettings : kernels::Instance {
  bool tiling_given = false;
  simulator::DeviceSpec device;
  tile::Limits limits;  // of the device
  tile::Program program;
  int64_t cores = 1;
};
Result<KernelSettings> read_settings(const KernelFlags& flags);
// The same with the shape of the whole and a program that loops over the cores.
Result<KernelSettings> of_all_cores(const KernelSettings& settings);

std::string shape_text(const KernelSettings& settings);  // "M 4096, K 8192, r 4096, N 16384"
std::string tiling_text(const kernels::Tiling& tiling);  // "BM=8,BK=4", as --tiling takes it
std::string_view dtype_text(DType dtype);                // "bf16", "fp32"

}  // namespace neuronmm::apps
