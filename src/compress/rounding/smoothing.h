#pragma once
// Computes smoothing factors: factors per channel that make values which int8 rounds together
// similar in size. They are multiplied into the weights of a model, which computes the same
// function as before. calibrated_rounding.h uses them before a model is rounded.
//
// A layer that reads x computes W·x = (W·diag(s))·(x / s). The division is free because it is done
// where x is made:
//
//   q, k, v; gate, up    in the gain of the norm before them
//   untied LM head       in the gain of the last norm
//   down                 in the rows of up
//   o                    in the rows of v; heads that share a value head share its factors
//
// The input of a mixture's experts is not divided, because the router reads it, too, and might then
// choose otherwise. The neurons of clamped SwiGLU are no multiples of up and are left out.
//
// The idea is that of SmoothQuant (arXiv 2211.10438), with other factors.
//
// The factors are s_c = (|x_c| / |w_c|)^exponent. |x_c| is the root mean square of channel c over a
// text, and |w_c| is that of its column over the rows. Activations that share a scale have errors
// as large as the sum of (x_c / s_c)², and these errors count as much as the sum of (s_c·w_c)². By
// Cauchy's inequality the product of the two sums is least at an exponent of a half. The rounding
// of weights gives the same product with both exchanged if one scale serves a whole group of
// channels. 4-bit weights have finer groups and need a smaller exponent.
// The gain on SmolLM2 is in docs/measurements/low_bits.md.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The root mean squares of the channels that a decoder layer's linear layers read, over a text. H
// is hidden_size, I intermediate_size.
struct ChannelSizes {
  std::vector<double> projections;  // [H]: the input of q, k and v
  std::vector<double> heads;        // [heads · head_dim]: the input of o
  std::vector<double> mlp;          // [H]: the input of gate and up
  std::vector<double> neurons;      // [I] or the number of neurons that are left: the input of down
  // The inputs of down of each expert of a mixture. `mlp` and `neurons` are then empty.
  std::vector<std::vector<double>> experts = {};
};
using ChannelSizesOf = std::function<Result<ChannelSizes>(int64_t layer)>;

// Factors by which the rows and columns of a tensor [rows, columns] are multiplied. An empty vector
// means that all factors are 1. A vector tensor only has row factors. The factors multiply the sum
// of a stored value and `offset`, which the gains of some models' norms have (gain_offset).
struct TensorScale {
  std::vector<double> rows = {}, columns = {};
  double offset = 0.0;
};
using TensorScales = std::map<std::string, TensorScale>;  // by the names in the checkpoint

// Returns the exponent of a tensor that will be rounded, by its name in the checkpoint. Where
// several tensors read the same input, the smallest exponent is used.
using SmoothingExponent = std::function<double(const std::string& tensor)>;

// Returns the factors of every tensor that changes. `head` [H] is what the LM head reads; a head
// that is tied to the embedding table stays as it is. Weights may have every form, but must have
// float dtypes. A norm or bias keeps its dtype: its factor is the exact quotient after rounding to
// that dtype, so nothing is lost there. Fails if a channel size is not finite.
Result<TensorScales> smoothing_scales(const io::Checkpoint& checkpoint,
                                      const io::ModelConfig& config, const ChannelSizesOf& sizes,
                                      const std::vector<double>& head,
                                      const SmoothingExponent& exponent);

// Returns the tensor times its factors, row-major, in fp32.
std::vector<float> scaled_values(const TensorView& tensor, const TensorScale& scale);

// Calls `visit` with the tensor times its factors, or with the tensor itself if `scales` has none
// for `name`. A scaled vector keeps its dtype; a scaled matrix is fp32.
Status visit_scaled(const TensorScales& scales, const std::string& name, const TensorView& tensor,
                    const std::function<Status(const TensorView&)>& visit);

// Returns a matrix of the checkpoint times its factors. Releases the pages of the checkpoint.
DoubleMatrix scaled_matrix(const TensorScales& scales, const std::string& name,
                           const io::Checkpoint& checkpoint);

}  // namespace neuronmm::compress
