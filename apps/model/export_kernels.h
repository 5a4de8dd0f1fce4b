#pragma once
// The fused kernels of `neuronmm export`: NKI source for the MLPs that one kernel can compute.

#include <vector>

#include "base/result.h"
#include "exports/manifest.h"

namespace neuronmm::apps {

// Returns one kernel for every rank in `use`, for prefills of `rows` tokens, and a small kernel for
// nki.simulate. A kernel that does not fit into SBUF is left out, and a note in `use` says so. If
// all are left out, the result is empty.
Result<std::vector<exports::ExportedKernel>> export_kernels(const io::ModelConfig& config,
                                                            const std::string& device, int64_t rows,
                                                            exports::KernelUse& use);

}  // namespace neuronmm::apps
