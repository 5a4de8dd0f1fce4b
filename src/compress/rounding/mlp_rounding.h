#pragma once
// The tensors of one MLP, dense or narrowed in any form, rounded by the Gram matrices of what it
// and its down read (mlp_statistics.h).
//
//   two factors   the one that is applied second first, by the Gram matrix of what the other makes;
//                 then the other, fitted to what that has become
//   pivots        the map to 8 bits, nearest; then the weight beside it, fitted to what the map has
//                 become: on the way in by the inputs, on the way out as quantize.h does

#include <functional>
#include <string>

#include "compress/rounding/tensor_rounding.h"
#include "compress/statistics/mlp_statistics.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// `prefix` begins the names of its tensors. The statistics are asked for only if codes are missing.
// Interrupted between two MLPs, a run goes on: tensors whose codes are there are left.
Status round_mlp(const TensorRounding& tensors, const ops::MlpWeight& mlp,
                 const std::string& prefix,
                 const std::function<Result<MlpStatistics>()>& statistics);

}  // namespace neuronmm::compress
