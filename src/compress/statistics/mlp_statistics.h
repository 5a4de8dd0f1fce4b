#pragma once
// The statistics that `compress` and `fit` need to narrow an MLP, and `quantize` and `fit` need to
// round linear layers. They are means over the tokens of a calibration text, one file per layer.
// The model may be compressed already.
//
// H hidden_size, I intermediate_size, A num_attention_heads * head_dim. x is the MLP's input, g =
// gate·x, u = up·x and h = activate(g) * u. Neurons that a layer of a compressed model does not
// have count as h = 0.

#include <filesystem>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "compress/statistics/inputs.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The statistics of one layer's MLP.
struct MlpStatistics {
  DoubleMatrix in;          // [H, H], mean of x·xᵀ
  DoubleMatrix neurons;     // [I, I], mean of h·hᵀ
  DoubleMatrix gate_slope;  // [1, I], mean of (∂h/∂g)²
  DoubleMatrix up_slope;    // [1, I], mean of (∂h/∂u)²
  // [1, 1], mean over tokens of |hidden state after the layer|² / H. With a norm of the MLP's
  // output, it is multiplied by the mean square of that output before the norm over the one after
  // it.
  DoubleMatrix residual;
};

// The statistics of one layer's attention.
struct AttentionStatistics {
  DoubleMatrix in;  // [H, H], mean of z·zᵀ for the input z of q, k and v
  // [H, H], the same for inputs of v as attention mixes them (attention_recorder.h)
  DoubleMatrix mixed;
  DoubleMatrix heads;  // [A, A], the same for the input of the output projection
};

// Returns the file of a layer in the folder `work` (means_file.h). Its tensors have the names of
// the fields above.
std::filesystem::path statistics_path(const std::filesystem::path& work, int64_t layer);
Result<MlpStatistics> read_statistics(const std::filesystem::path& work, int64_t layer,
                                      const io::ModelConfig& config);
// Fails unless the file has the tensors of this model and its checksum is right.
Status check_statistics(const std::filesystem::path& work, int64_t layer,
                        const io::ModelConfig& config);

// Return the file and the statistics of a layer's attention, which has a file of its own.
std::filesystem::path attention_path(const std::filesystem::path& work, int64_t layer);
Result<AttentionStatistics> read_attention_statistics(const std::filesystem::path& work,
                                                      int64_t layer, const io::ModelConfig& config);
// Return the file with the statistics of the LM head, and the matrix in it: tensor "in" [H, H], the
// mean of z·zᵀ for the input z of the LM head.
std::filesystem::path head_path(const std::filesystem::path& work);
Result<DoubleMatrix> read_head_statistics(const std::filesystem::path& work,
                                          const io::ModelConfig& config);
// Fails unless the files of attention of all layers and the file of the head are there with right
// checksums.
Status check_linear_statistics(const std::filesystem::path& work, const io::ModelConfig& config);

// The statistics to gather: those of MLPs, or those of all linear layers.
enum class Gathered { kMlps, kAllLinears };
// Writes the statistics of MLPs to `work`, a file per layer. With kAllLinears it also writes those
// of attention and of the LM head. Continues where an interrupted run stopped.
Status gather_statistics(const CompressionInputs& inputs, const std::filesystem::path& work,
                         Gathered what);

}  // namespace neuronmm::compress
