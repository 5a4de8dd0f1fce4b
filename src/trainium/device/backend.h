#pragma once
// A model on a simulated NeuronCore: an ops::Backend whose MLPs run as tile programs.
//
// Values. MLPs are computed by the interpreter, as the hardware would: bf16 operands, fp32 sums in
// PSUM, a rounding at every write to SBUF. All other operations are computed in fp32 by another
// backend, the host.
//
// Time. clock_seconds() advances with every operation: an MLP by what the timing model predicts for
// its program, the others by the roofline of roofline.h. One NeuronCore, each operation after the
// other. Not modelled: the embedding's lookup, sampling, and everything outside of the
// device (kernel launch, copies to and from the host, the framework).

#include <cstdint>
#include <functional>
#include <memory>

#include "ops/backend.h"
#include "trainium/device/mlp_program.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

// Values and time.
std::unique_ptr<ops::Backend> make_backend(const simulator::DeviceSpec& device,
                                           ChooseTiling choose_tiling,
                                           std::unique_ptr<ops::Backend> host);

// Time alone, from shapes alone: no weight is read and no result written.
std::unique_ptr<ops::Backend> make_timing_backend(const simulator::DeviceSpec& device,
                                                  ChooseTiling choose_tiling);

// The same, and every MLP takes as long for so many tokens as the caller says: of a form that no
// weight has.
using MlpSeconds = std::function<Result<double>(int64_t tokens)>;
std::unique_ptr<ops::Backend> make_timing_backend(const simulator::DeviceSpec& device,
                                                  MlpSeconds mlp_seconds);

}  // namespace neuronmm::device
