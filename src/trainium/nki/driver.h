#pragma once
// This file writes the `main` that follows a kernel in its module when the module is to be run. The
// `main` calls the kernel with random inputs, checks it against a reference in fp32 and, on a
// device, times it. The text is written from public documentation; nobody has run one on a device.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainium/nki/emitter.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

// The program that calls the kernel.
// * torch: PyTorch on a NeuronCore, by torch_xla or the native backend of torch-neuronx.
// * numpy: NumPy alone on a NeuronCore. In nki, calls with NumPy arrays compile and run; in
//   neuronxcc, nki.baremetal does.
// * simulate: the SDK's simulator in NumPy without a device: nki.simulate, nki.simulate_kernel.
enum class Driver { kTorch, kNumpy, kSimulate };

const std::vector<std::string>& driver_names();
std::optional<Driver> find_driver(std::string_view name);

// Returns the driver's source text. The program's inputs are random: the first has deviation 1, the
// others 1 / sqrt(rows). `tolerance` is the relative error in the Frobenius norm that the driver
// accepts.
std::string emit_driver(const tile::Program& program, const Description& description, Driver driver,
                        double tolerance);

}  // namespace neuronmm::nki
