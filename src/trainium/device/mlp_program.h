#pragma once
// Chooses the tile program that runs an MLP on a number of tokens, and predicts its time. The
// simulated backend (backend.h) uses it.

#include <functional>
#include <map>
#include <utility>

#include "base/result.h"
#include "trainium/device/mlp_shape.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

struct MlpProgram {
  const kernels::Kernel* kernel = nullptr;  // "mlp", "dense_mlp", ...: bf16 with fp32 sums.
  kernels::KernelShape shape;
  kernels::Tiling tiling;
  double seconds = 0;  // The kernel's time by the timing model, plus the gathers' by a roofline.

  // Returns the same kernel and tiling for `tokens` rows of X. A row's values do not depend on the
  // number of rows, because only the tiling's contraction blocks decide the order of its sums.
  Result<tile::Program> for_rows(int64_t tokens) const;
};

// Chooses the tiling of a kernel, for example the tuner's best, or that of default_tilings().
using ChooseTiling =
    std::function<Result<kernels::Tiling>(const kernels::Kernel&, const kernels::KernelShape&)>;
// Returns a function that chooses the kernels' default tilings, with row blocks that SBUF holds.
ChooseTiling default_tilings(const simulator::DeviceSpec& device);

class MlpPrograms {
 public:
  MlpPrograms(const simulator::DeviceSpec& device, ChooseTiling choose_tiling)
      : device_(device), choose_tiling_(std::move(choose_tiling)) {}

  // Returns the program for a shape and a number of tokens, which is chosen and timed at the first
  // call and then kept. The tiling is chosen for whole row tiles of 128 tokens, so prompts of
  // similar lengths and decoding share one. Fails for sizes that no kernel takes and for programs
  // that SBUF cannot hold.
  Result<const MlpProgram*> find(const MlpShape& shape, int64_t tokens);

 private:
  Result<MlpProgram> choose(const MlpShape& shape, int64_t tokens) const;

  simulator::DeviceSpec device_;
  ChooseTiling choose_tiling_;
  std::map<std::pair<MlpShape, int64_t>, MlpProgram> programs_;
};

}  // namespace neuronmm::device
