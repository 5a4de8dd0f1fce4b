#pragma once
// One dense MLP in the sizes that were chosen for it, as the tensors that a checkpoint holds.

#include <string>
#include <vector>

#include "base/result.h"
#include "compress/predicted_loss.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Of the names in model/mlp_reader.h, without the layer's prefix.
struct MlpTensor {
  std::string name;
  DoubleMatrix values;           // or
  std::vector<int32_t> numbers;  // of pivots
};
struct NarrowMlp {
  std::vector<MlpTensor> tensors;
  double largest_map = 0.0;  // the largest entry of a map between pivots and others
};

// Neurons go first, and down makes up for them; then the input of those that are left is narrowed,
// then the output. Maps are rounded to `stored` (kI8: int8 with the scales of ops::quantize) before
// the weights beside them are fitted; the weights are for the caller to round. `order` is that of
// predict_losses().
Result<NarrowMlp> narrow_mlp(const DenseMlp& mlp, const MlpStatistics& statistics,
                             const MlpMetric& metric, const std::vector<int32_t>& order,
                             const io::MlpShape& shape, DType stored);

}  // namespace neuronmm::compress
