#include "trainium/device/mlp_program.h"

#include <fmt/format.h>

#include "trainium/device/roofline.h"
#include "trainium/simulator/residency.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::device {

Result<tile::Program> MlpProgram::for_rows(int64_t tokens) const {
  kernels::KernelShape rows = shape;
  rows.M = tokens;
  return kernels::make_program(*kernel, rows, tiling, {});
}

// Without a tuner, a kernel gets its default tiling, fitted to the device's SBUF.
ChooseTiling default_tilings(const simulator::DeviceSpec& device) {
  return [limits = simulator::limits_of(device)](const kernels::Kernel& kernel,
                                                 const kernels::KernelShape& shape) {
    return kernels::fitting_tiling(kernel, shape, {}, {}, limits);
  };
}

// Programs and times are kept per number of tokens, because decoding asks for the same number again
// and again.
Result<const MlpProgram*> MlpPrograms::find(const MlpShape& shape, int64_t tokens) {
  const auto key = std::make_pair(shape, tokens);
  if (const auto found = programs_.find(key); found != programs_.end()) return &found->second;
  Result<MlpProgram> chosen = choose(shape, tokens);
  if (!chosen) {
    // An interrupt (Ctrl-C) during tuning is no error of the MLP.
    if (chosen.error().kind == Error::Kind::kInterrupted) return chosen.error();
    return fail("{}: an MLP of {} tokens, {}: {}", device_.name, tokens, to_string(shape),
                chosen.error().message);
  }
  return &programs_.emplace(key, std::move(*chosen)).first->second;
}

Result<MlpProgram> MlpPrograms::choose(const MlpShape& shape, int64_t tokens) const {
  MlpProgram program;
  NMM_ASSIGN(program.kernel, kernels::find_kernel(kernel_of(shape)));
  program.shape = kernel_shape(shape, tokens);
  // The number of tokens is rounded up to whole tiles for the choice of the tiling. Prompts of 100
  // and 120 tokens thus share a tiling, and decoding one token has that of 128. The time is that of
  // the real number of tokens.
  kernels::KernelShape whole_tiles = program.shape;
  whole_tiles.M = tile::ceil_div(tokens, kernels::kPartitions) * kernels::kPartitions;
  NMM_ASSIGN(program.tiling, choose_tiling_(*program.kernel, whole_tiles));
  NMM_ASSIGN(const tile::Program tiles, program.for_rows(tokens));
  NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(tiles, device_));
  const Work gather = gather_work(tokens, shape.hidden_size);
  program.seconds =
      timing.summary.total_time + num_gathers(shape) * roofline_seconds(device_, gather);
  return program;
}

}  // namespace neuronmm::device
