#pragma once
// What follows a kernel in its module when it is to be run: a `main` that calls it from torch on a
// NeuronCore, checks it against torch in fp32 and times it. Written from the public documentation
// of torch_xla and torch-neuronx; nobody has run it on a device.

#include <string>

#include "trainium/nki/emitter.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

// The program's inputs are random, the first with deviation 1, the others with 1 / sqrt(rows).
// `tolerance`: the relative error in the Frobenius norm that it accepts.
std::string emit_driver(const tile::Program& program, const Description& description,
                        double tolerance);

}  // namespace neuronmm::nki
