#pragma once
// Runs a model on a simulated NeuronCore: an ops::Backend whose MLPs are tile programs.
//
// Values: the interpreter computes the MLPs as the hardware would, with bf16 operands, fp32 sums in
// PSUM and a rounding at every write to SBUF. Another backend, the host, computes all other
// operations in fp32.
//
// Time: clock_seconds() advances with every operation. An MLP takes the time that the timing model
// predicts for its program, and other operations take that of roofline.h. The operations run one
// after the other on one NeuronCore. Not modelled: the embedding's lookup, sampling, and everything
// outside of the device (kernel launch, copies to and from the host, the framework).

#include <cstdint>
#include <functional>
#include <memory>

#include "ops/backend.h"
#include "trainium/device/mlp_program.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

// Returns a backend that computes values and times.
std::unique_ptr<ops::Backend> make_backend(const simulator::DeviceSpec& device,
                                           ChooseTiling choose_tiling,
                                           std::unique_ptr<ops::Backend> host);

// Returns a backend that computes times only, from shapes. It reads no weights and writes no
// results.
std::unique_ptr<ops::Backend> make_timing_backend(const simulator::DeviceSpec& device,
                                                  ChooseTiling choose_tiling);

// Returns a backend that computes times only. The caller gives the time of an MLP for a number of
// tokens, for example of a form that no weight has.
using MlpSeconds = std::function<Result<double>(int64_t tokens)>;
std::unique_ptr<ops::Backend> make_timing_backend(const simulator::DeviceSpec& device,
                                                  MlpSeconds mlp_seconds);

}  // namespace neuronmm::device
