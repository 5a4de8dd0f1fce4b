#pragma once
// Writes the fused kernels of `neuronmm export`, as NKI source. A fused kernel computes a whole
// MLP. It can do so for a layer whose three matrices are two factors each, all of one rank
// (exports/check_exportable.h). The other layers run as plain torch products.

#include <vector>

#include "base/result.h"
#include "exports/manifest.h"

namespace neuronmm::apps {

// Returns one kernel for every rank in use.fused, for prefills of exactly `rows` tokens, and a
// small kernel for nki.simulate. All are launched on two cores, which split the rows. `use` comes
// from exports::kernel_use(), and `choice` from exports::choose_release(). A kernel that does not
// fit into SBUF is left out, and so are all if `rows` is odd. A note is then added to use.notes. If
// all are left out, or use.fused is empty, the result is empty.
//
// Errors: an unknown device, a shape that the kernel "mlp" does not take or that has too many
// instructions to simulate, and a program that breaks a rule of the device.
Result<std::vector<exports::ExportedKernel>> export_kernels(const io::ModelConfig& config,
                                                            const exports::Choice& choice,
                                                            int64_t rows, exports::KernelUse& use);

}  // namespace neuronmm::apps
