#pragma once
// What narrowing an MLP needs to know of it beside its weights, layer by layer, as means over the
// tokens of a calibration text. H hidden_size, I intermediate_size; x the MLP's input, g and u what
// gate and up make of it, h = silu(g) * u.

#include <filesystem>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration_text.h"
#include "compress/linear_algebra.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::compress {

struct MlpStatistics {
  DoubleMatrix in;          // [H, H], mean of x·xᵀ
  DoubleMatrix neurons;     // [I, I], mean of h·hᵀ
  DoubleMatrix gate_slope;  // [1, I], mean of (∂h/∂g)²
  DoubleMatrix up_slope;    // [1, I], mean of (∂h/∂u)²
  DoubleMatrix residual;    // [1, 1], mean over tokens of |hidden state after the layer|² / H
};

// A checked file of one layer in `work`, of F64 tensors by the names above. Of `in` and `neurons`
// it holds the lower triangle, column after column, [n (n + 1) / 2]. Not in fp32: of thousands of
// neurons that move together the rounding of the entries adds up to about the ridge of
// predicted_loss.cc, and what is left may have no Cholesky factor.
std::filesystem::path statistics_path(const std::filesystem::path& work, int64_t layer);
Result<MlpStatistics> read_statistics(const std::filesystem::path& work, int64_t layer,
                                      const io::ModelConfig& config);
// The file has its checksum and the tensors of this model.
Status check_statistics(const std::filesystem::path& work, int64_t layer,
                        const io::ModelConfig& config);

// Leaves a file per layer in `work`; goes on from what an interrupted run left.
Status gather_statistics(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                         const ops::Backend& backend, const CalibrationSequences& text,
                         const std::filesystem::path& work, Progress& progress);

}  // namespace neuronmm::compress
