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

// A checked file of one layer in `work`.
std::filesystem::path statistics_path(const std::filesystem::path& work, int64_t layer);
Result<MlpStatistics> read_statistics(const std::filesystem::path& work, int64_t layer,
                                      const io::ModelConfig& config);

// Leaves a file per layer in `work`; goes on from what an interrupted run left.
Status gather_statistics(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                         const ops::Backend& backend, const CalibrationSequences& text,
                         const std::filesystem::path& work, Progress& progress);

}  // namespace neuronmm::compress
