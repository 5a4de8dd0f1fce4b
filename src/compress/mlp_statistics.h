#pragma once
// What narrowing an MLP, and rounding any linear layer, needs to know beside the weights, layer by
// layer, as means over the tokens of a calibration text. H hidden_size, I intermediate_size, A
// columns of all heads; x the MLP's input, g and u what gate and up make of it, h = silu(g) * u.
// The model may be compressed; h of neurons that a layer does not have is 0.

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "compress/inputs.h"
#include "compress/linear_algebra.h"
#include "io/model_config.h"

namespace neuronmm::compress {

struct MlpStatistics {
  DoubleMatrix in;          // [H, H], mean of x·xᵀ
  DoubleMatrix neurons;     // [I, I], mean of h·hᵀ
  DoubleMatrix gate_slope;  // [1, I], mean of (∂h/∂g)²
  DoubleMatrix up_slope;    // [1, I], mean of (∂h/∂u)²
  DoubleMatrix residual;    // [1, 1], mean over tokens of |hidden state after the layer|² / H
};

struct AttentionStatistics {
  DoubleMatrix in;     // [H, H], of what q and k read
  DoubleMatrix mixed;  // [H, H], of that as attention mixes it (attention_recorder.h): v's
  DoubleMatrix heads;  // [A, A], of what the output projection reads
};

// A file of one layer in `work` (means_file.h), of tensors by the names above.
std::filesystem::path statistics_path(const std::filesystem::path& work, int64_t layer);
Result<MlpStatistics> read_statistics(const std::filesystem::path& work, int64_t layer,
                                      const io::ModelConfig& config);
// The file has its checksum and the tensors of this model.
Status check_statistics(const std::filesystem::path& work, int64_t layer,
                        const io::ModelConfig& config);

// The same of attention, in a file beside it.
std::filesystem::path attention_path(const std::filesystem::path& work, int64_t layer);
Result<AttentionStatistics> read_attention_statistics(const std::filesystem::path& work,
                                                      int64_t layer, const io::ModelConfig& config);
// The [H, H] of what the LM head reads, tensor "in" of a file of its own.
std::filesystem::path head_path(const std::filesystem::path& work);
Result<DoubleMatrix> read_head_statistics(const std::filesystem::path& work,
                                          const io::ModelConfig& config);
// The files of all layers and of the head are there, each with its checksum.
Status check_linear_statistics(const std::filesystem::path& work, const io::ModelConfig& config);

enum class Gathered { kMlps, kAllLinears };
// Leaves a file per layer in `work`, and if asked for those of attention and the head; goes on from
// what an interrupted run left.
Status gather_statistics(const CompressionInputs& inputs, const std::filesystem::path& work,
                         Gathered what);

}  // namespace neuronmm::compress
