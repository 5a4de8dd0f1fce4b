#pragma once
// One dense MLP in the sizes that were chosen for it, as the tensors that a checkpoint holds.

#include <string>
#include <vector>

#include "base/result.h"
#include "compress/dense_mlp.h"
#include "compress/mlp_metric.h"
#include "compress/mlp_statistics.h"
#include "compress/stored_format.h"
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

// Gate, up and down of the neurons that stay, with what is known of them.
struct KeptNeurons {
  DenseMlp mlp;
  std::vector<double> gate_metric, up_metric;
  DoubleMatrix gram;  // [k, k], mean of h·hᵀ
};
// The first `shape.neurons` (0: all) of `order`, in ascending order; down makes up for the others.
// `neurons` [I, I], the mean of h·hᵀ over all of them, is large: a caller that needs it no more
// moves it.
Result<KeptNeurons> keep_neurons(DenseMlp mlp, DoubleMatrix neurons, const MlpMetric& metric,
                                 const std::vector<int32_t>& order, const io::MlpShape& shape);

// Adds the tensors of gate and up, for inputs with the Gram matrix `gram` [H, H]. Maps are rounded
// (map_format(stored)) before the weights beside them are fitted; the weights, which will be
// `stored`, are for the caller to round.
Status narrow_inputs(const KeptNeurons& kept, const DoubleMatrix& gram, const io::MlpShape& shape,
                     const StoredFormat& stored, NarrowMlp& out);
// Adds the tensors of down_t [H, k], for neurons with the Gram matrix `gram` [k, k].
Status narrow_down(DoubleMatrix down_t, const DoubleMatrix& gram, const MlpMetric& metric,
                   const io::MlpShape& shape, const StoredFormat& stored, NarrowMlp& out);

// All of it from the dense model's statistics: neurons first, then the input of those that are
// left, then the output.
Result<NarrowMlp> narrow_mlp(DenseMlp mlp, MlpStatistics statistics, const MlpMetric& metric,
                             const std::vector<int32_t>& order, const io::MlpShape& shape,
                             const StoredFormat& stored);

// The same MLP with neurons behind its own whose weights are 0, `count` in all; `mlp` has no
// pivots.
NarrowMlp with_zero_neurons(const NarrowMlp& mlp, int64_t count);

// The same product as two factors per matrix, of those that are there: pivots of its own become the
// identity in the factor that reads or makes the hidden state. Of few bits the first factor is
// fitted to what rounding makes of the second.
NarrowMlp with_factors(const NarrowMlp& pivoted, const StoredFormat& stored);

}  // namespace neuronmm::compress
