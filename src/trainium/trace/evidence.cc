#include "trainium/trace/evidence.h"

#include <algorithm>
#include <array>

namespace neuronmm::trace {

namespace {

// The calls that stand in kernels with a published time on the device: nki-library's kernels of
// docs/measurements/predictions.md and the kernels of docs/measurements/predictions_chipboost.md.
constexpr std::array<std::string_view, 18> kMeasured = {"activation",
                                                        "activation_reduce",
                                                        "affine_select",
                                                        "bn_aggr",
                                                        "bn_stats",
                                                        "core_barrier",
                                                        "iota",
                                                        "memset",
                                                        "nc_matmul",
                                                        "nc_stream_shuffle",
                                                        "nc_transpose",
                                                        "range_select",
                                                        "reciprocal",
                                                        "tensor_copy",
                                                        "scalar_tensor_tensor",
                                                        "tensor_reduce",
                                                        "tensor_scalar",
                                                        "tensor_tensor"};

constexpr int64_t kShortRow = 512;  // Documented: shorter descriptors are inefficient.

}  // namespace

std::string_view evidence_name(Evidence evidence) {
  constexpr std::array<std::string_view, kEvidences> kNames = {"transfers",
                                                               "transfers of short rows",
                                                               "transposing transfers",
                                                               "run-time addresses",
                                                               "Tensor",
                                                               "elementwise",
                                                               "unmeasured"};
  return kNames[static_cast<size_t>(evidence)];
}

Evidence evidence_of(const Operation& operation, const Priced& priced) {
  if (priced.job.kind == simulator::Kind::kDma) {
    if (priced.transfer.software) return Evidence::kRunTimeAddress;
    if (priced.transfer.transposes) return Evidence::kTransposingDma;
    return priced.transfer.chunk_bytes < kShortRow ? Evidence::kShortRows : Evidence::kTransfer;
  }
  if (operation.name.starts_with("register_")) return Evidence::kElementwise;
  // No kernel with rows of fp8 has a published time, except those of unknown cores.
  const bool fp8 = operation.perf_mode.starts_with("double_row");
  if (fp8 || std::ranges::find(kMeasured, operation.name) == kMeasured.end()) {
    return Evidence::kUnmeasured;
  }
  return operation.name.starts_with("nc_matmul") || operation.name == "nc_transpose"
             ? Evidence::kTensor
             : Evidence::kElementwise;
}

}  // namespace neuronmm::trace
