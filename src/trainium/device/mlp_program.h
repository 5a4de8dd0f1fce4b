#pragma once
// Which tile program runs an MLP on so many tokens, and how long it takes.

#include <functional>
#include <map>
#include <utility>

#include "base/result.h"
#include "trainium/device/mlp_shape.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

struct MlpProgram {
  const kernels::Kernel* kernel = nullptr;  // "mlp", "dense_mlp", ...: bf16 with fp32 sums
  kernels::KernelShape shape;
  kernels::Tiling tiling;
  double seconds = 0;  // by the timing model, and of the gathers around the kernel by a roofline

  // The same kernel and tiling for `tokens` rows of X. A row's values do not depend on how many
  // there are: the tiling's contraction blocks alone decide how they are summed.
  Result<tile::Program> for_rows(int64_t tokens) const;
};

// The tiling to run a kernel with: the tuner's best, say, or that of default_tilings().
using ChooseTiling =
    std::function<Result<kernels::Tiling>(const kernels::Kernel&, const kernels::KernelShape&)>;
// The kernels' default tilings, with row blocks that SBUF holds.
ChooseTiling default_tilings(const simulator::DeviceSpec& device);

class MlpPrograms {
 public:
  MlpPrograms(const simulator::DeviceSpec& device, ChooseTiling choose_tiling)
      : device_(device), choose_tiling_(std::move(choose_tiling)) {}

  // Chosen and timed the first time that a shape meets a number of tokens, then remembered. The
  // tiling is chosen for whole row tiles of 128 tokens, so that prompts of similar lengths and
  // decoding share one. Errors: sizes that no kernel takes, and programs that SBUF cannot hold.
  Result<const MlpProgram*> find(const MlpShape& shape, int64_t tokens);

 private:
  Result<MlpProgram> choose(const MlpShape& shape, int64_t tokens) const;

  simulator::DeviceSpec device_;
  ChooseTiling choose_tiling_;
  std::map<std::pair<MlpShape, int64_t>, MlpProgram> programs_;
};

}  // namespace neuronmm::device
