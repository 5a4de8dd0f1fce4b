#pragma once
// Rounds the tensors of one MLP, dense or narrowed in any form, by the Gram matrices of the MLP's
// input and of its neurons (mlp_statistics.h). round_model.h calls it for each layer. The order of
// rounding depends on the form:
//
//   two factors   The factor that is applied second is rounded first, by the Gram matrix of the
//                 first one's output. The other factor is fitted to the result, then rounded.
//   pivots        The map is rounded to the nearest 8-bit values. The weight next to it is fitted
//                 to the rounded map, then rounded. With pivots of the input the fit uses the
//                 Gram matrix of the input; with pivots of the output it uses map_refit.h.

#include <functional>
#include <string>

#include "compress/rounding/tensor_rounding.h"
#include "compress/statistics/mlp_statistics.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// Rounds the MLP whose tensor names begin with `prefix`. `statistics` is only called if codes are
// missing from the work folder. Tensors whose codes are there keep them, so that an interrupted run
// continues.
Status round_mlp(const TensorRounding& tensors, const ops::MlpWeight& mlp,
                 const std::string& prefix,
                 const std::function<Result<MlpStatistics>()>& statistics);

}  // namespace neuronmm::compress
