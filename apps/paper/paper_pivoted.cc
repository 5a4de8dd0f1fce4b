#include "paper/paper_pivoted.h"

#include "trainium/kernels/registry.h"
#include "trainium/simulator/timing.h"
#include "trainium/validation/published_programs.h"

namespace neuronmm::apps {

Result<PivotedRun> simulate_pivoted(int64_t M) {
  NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device("trn1"));
  NMM_ASSIGN(const kernels::Kernel* kernel, kernels::find_kernel("xuv_pivoted"));
  // The tuner's result at M = 4096, except that BM is the paper's.
  NMM_ASSIGN(const kernels::Tiling tiling,
             kernels::tiling_of(
                 *kernel, {{"BM", 8}, {"BK", 8}, {"Bu", 8}, {"Br", 16}, {"BN", 1}, {"copies", 3}}));
  const kernels::KernelShape shape = validation::neuronmm(M).shape;
  NMM_ASSIGN(const tile::Program program,
             kernels::make_program(*kernel, shape, tiling, {.accumulate = DType::kBF16}));
  NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(program, device));
  const auto bytes = static_cast<double>(timing.summary.hbm_bytes());
  return PivotedRun{.milliseconds = timing.summary.milliseconds(), .gib = bytes / (1 << 30)};
}

}  // namespace neuronmm::apps
