#pragma once
// Factors per channel that make what int8 rounds together alike in size, folded into the weights of
// a model, which computes the same as before.
//
// A layer that reads x computes W·x = (W·diag(s))·(x / s), and what makes x can be divided by s
// beforehand: the gain of the norm in front of q, k, v, of gate and up, and of an LM head of its
// own; the rows of up in front of down; the rows of v in front of o, where all heads that share a
// value head share its factors. Nothing is added to the work of the model (SmoothQuant, arXiv
// 2211.10438, has the idea and other factors).
//
// The factors are s_c = (|x_c| / |w_c|)^exponent, of the root mean squares of channel c over a text
// and of its column over the rows. A group of activations rounded with one scale makes errors as
// large as the sum of (x_c / s_c)², and they count as much as the sum of (s_c·w_c)²; the product of
// the two is least at an exponent of a half, by Cauchy's inequality. The rounding of weights gives
// the same product with both exchanged, where one scale is for a whole group of channels; weights
// of 4 bits have finer ones, and want less. What they gain on SmolLM2: docs/low_bit.md.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Root mean squares over a text of what the linear layers of a decoder layer read.
struct ChannelSizes {
  std::vector<double> projections;  // [H]: q, k and v
  std::vector<double> heads;        // [heads · head_dim]: o
  std::vector<double> mlp;          // [H]: gate and up
  std::vector<double> neurons;      // [I], or as many as are left: down
};
using ChannelSizesOf = std::function<Result<ChannelSizes>(int64_t layer)>;

// A tensor [rows, columns] times a factor for each row and column; empty: 1. A vector has rows.
struct TensorScale {
  std::vector<double> rows, columns;
};
using TensorScales = std::map<std::string, TensorScale>;  // by the names in the checkpoint

// Of a tensor that is rounded, by its name in the checkpoint. Of several that read the same, the
// smallest exponent holds.
using SmoothingExponent = std::function<double(const std::string& tensor)>;

// Of every tensor that changes. `head`: [H], what the LM head reads; a head that is tied to the
// embedding table stays as it is. Weights of every form, in float dtypes. A norm and a bias keep
// their dtype: a factor is what the quotient becomes in it, so that nothing is lost there.
Result<TensorScales> smoothing_scales(const io::Checkpoint& checkpoint,
                                      const io::ModelConfig& config, const ChannelSizesOf& sizes,
                                      const std::vector<double>& head,
                                      const SmoothingExponent& exponent);

// The tensor times its factors, row-major, as fp32.
std::vector<float> scaled_values(const TensorView& tensor, const TensorScale& scale);

// Passes on the tensor times its factors, or itself where `scales` has none for the name. A vector
// has its own dtype, a matrix is fp32.
Status visit_scaled(const TensorScales& scales, const std::string& name, const TensorView& tensor,
                    const std::function<Status(const TensorView&)>& visit);

// A matrix of the checkpoint times its factors. Pages that were read are given back.
DoubleMatrix scaled_matrix(const TensorScales& scales, const std::string& name,
                           const io::Checkpoint& checkpoint);

}  // namespace neuronmm::compress
