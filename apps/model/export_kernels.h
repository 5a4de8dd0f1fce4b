#pragma once
// The fused kernels of an export: NKI source for the MLPs that one kernel can compute.

#include <vector>

#include "base/result.h"
#include "exports/manifest.h"

namespace neuronmm::apps {

// One for every rank of `use`, for prefills of `rows` tokens, and a small one for nki.simulate.
// What SBUF cannot hold is left out, with a note in `use`.
Result<std::vector<exports::ExportedKernel>> export_kernels(const io::ModelConfig& config,
                                                            const std::string& device, int64_t rows,
                                                            exports::KernelUse& use);

}  // namespace neuronmm::apps
