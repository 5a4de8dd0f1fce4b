#pragma once
// What follows a kernel in its module when it is to be run: a `main` that calls it with random
// inputs, checks it against a reference in fp32 and, on a device, times it. Written from public
// documentation; nobody has run one on a device.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainium/nki/emitter.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

// What calls the kernel.
//   torch      PyTorch on a NeuronCore, by torch_xla or the native backend of torch-neuronx
//   numpy      NumPy, stand-alone on a NeuronCore: calls with NumPy arrays compile and run (nki),
//   or
//              nki.baremetal (neuronxcc)
//   simulate   the SDK's simulator in NumPy, without a device: nki.simulate, nki.simulate_kernel
enum class Driver { kTorch, kNumpy, kSimulate };

const std::vector<std::string>& driver_names();
std::optional<Driver> find_driver(std::string_view name);

// The program's inputs are random, the first with deviation 1, the others with 1 / sqrt(rows).
// `tolerance`: the relative error in the Frobenius norm that it accepts.
std::string emit_driver(const tile::Program& program, const Description& description, Driver driver,
                        double tolerance);

}  // namespace neuronmm::nki
