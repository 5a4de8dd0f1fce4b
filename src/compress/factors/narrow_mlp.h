#pragma once
// Narrows one dense MLP to given sizes: fewer neurons, a narrower input of gate and up, a narrower
// output of down. The result is the tensors that a checkpoint holds. narrow_layers.h narrows all
// layers of a model. The functions fail only if a LAPACK routine does.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compress/factors/dense_mlp.h"
#include "compress/rounding/stored_format.h"
#include "compress/statistics/mlp_metric.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The ending of the names of biases.
inline constexpr std::string_view kBiasEnding = "_proj.bias";

// The data of one MLP that narrowing needs: its dense weights, their statistics and the metric of
// its errors.
struct MlpData {
  DenseMlp mlp;
  MlpStatistics statistics;
  MlpMetric metric;
};

// A tensor under its name in model/mlp_reader.h, without the layer's prefix. It has either `values`
// or, for the indices of pivots, `numbers`. A bias is one row.
struct MlpTensor {
  std::string name;
  DoubleMatrix values;
  std::vector<int32_t> numbers;

  bool is_bias() const { return name.ends_with(kBiasEnding); }
  Shape shape() const {
    if (!numbers.empty()) return {std::ssize(numbers)};
    return is_bias() ? Shape{values.columns()} : Shape{values.rows(), values.columns()};
  }
};
// A narrowed MLP as the tensors of a checkpoint.
struct NarrowMlp {
  std::vector<MlpTensor> tensors;
  // The largest entry of a map between pivots and other elements.
  double largest_map = 0.0;
};

// Gate, up and down of the neurons that are kept, with their metric and Gram matrix.
struct KeptNeurons {
  DenseMlp mlp;
  std::vector<double> gate_metric, up_metric;
  DoubleMatrix gram;  // [k, k], mean of h·hᵀ
};
// Keeps the first `shape.neurons` neurons of `order`, which must have that many, in ascending order
// of their indices. If `shape.neurons` is 0, keeps all of them and does not read `order`. down
// makes up for the others. `neurons` [I, I] is the mean of h·hᵀ over all neurons. It is a large
// matrix, so callers should move it in if they can.
Result<KeptNeurons> keep_neurons(DenseMlp mlp, DoubleMatrix neurons, const MlpMetric& metric,
                                 const std::vector<int32_t>& order, const io::MlpShape& shape);

// Adds the tensors of gate and up, and all biases, for inputs with the Gram matrix `gram` [H, H].
// Maps are rounded (map_format(stored)) before the weights that belong to them are fitted. The
// weights are not rounded yet; the caller rounds them to `stored`.
Status narrow_inputs(const KeptNeurons& kept, const DoubleMatrix& gram, const io::MlpShape& shape,
                     const StoredFormat& stored, NarrowMlp& out);
// Adds the tensors of down_t [H, k], for neurons with the Gram matrix `gram` [k, k].
Status narrow_down(DoubleMatrix down_t, const DoubleMatrix& gram, const MlpMetric& metric,
                   const io::MlpShape& shape, const StoredFormat& stored, NarrowMlp& out);

// Narrows an MLP by the dense model's statistics: first the number of neurons, then the input of
// the neurons that are left, then the output.
Result<NarrowMlp> narrow_mlp(DenseMlp mlp, MlpStatistics statistics, const MlpMetric& metric,
                             const std::vector<int32_t>& order, const io::MlpShape& shape,
                             const StoredFormat& stored);

// Returns the MLP with neurons of zeros added behind its own, `count` neurons in all. `mlp` must
// have no pivots.
NarrowMlp with_zero_neurons(const NarrowMlp& mlp, int64_t count);

// Returns the same MLP with each pivoted matrix as a product of two factors. The pivots of gate, up
// or down become rows of the identity in the factor next to the hidden state. Dense matrices stay
// as they are, and missing ones stay missing. If the factors will have few bits, the first one is
// fitted to the rounded second one.
NarrowMlp with_factors(const NarrowMlp& pivoted, const StoredFormat& stored);

}  // namespace neuronmm::compress
