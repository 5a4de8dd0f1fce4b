#pragma once
// What a model folder holds, matrix by matrix, for those who show it.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::apps {

// One MLP matrix W[K, N], dense (r = 0) or of rank r: of two factors, or with r pivots. The map of
// its own pivots is part of it.
struct MatrixRow {
  int64_t in = 0, rank = 0, out = 0;  // K, r, N
  int64_t parameters = 0, bytes = 0;

  bool operator==(const MatrixRow&) const = default;
};
inline constexpr std::array kMatrixNames = {"gate", "up", "down"};

struct LayerRows {
  std::array<MatrixRow, 3> matrices;  // gate, up, down
  MatrixRow input;                    // the map of pivots that gate and up share, or nothing
  int64_t neurons = 0;

  bool operator==(const LayerRows&) const = default;
  MatrixRow total() const {
    MatrixRow sum = {.parameters = input.parameters, .bytes = input.bytes};
    for (const MatrixRow& matrix : matrices) {
      sum.parameters += matrix.parameters;
      sum.bytes += matrix.bytes;
    }
    return sum;
  }
};

// Reads the weights' names and shapes as loading would, so that what is shown is what runs.
Result<std::vector<LayerRows>> read_layers(const io::Checkpoint& checkpoint,
                                           const io::ModelConfig& config);

// Of `matrices` dense ones of the config: the share that the ratio asked for only approximates.
double kept_share(const MatrixRow& row, const io::ModelConfig& config, int64_t matrices = 1);
// 0 of a model without parameters.
double bits_per_weight(int64_t bytes, int64_t parameters);
// What the folder would have with the config's dense MLPs: at the bytes per weight of its own, or
// of bf16 where these are rounded.
int64_t dense_bytes(const io::ModelConfig& config, const io::Checkpoint& checkpoint,
                    const std::vector<LayerRows>& layers);
// "BF16", or all dtypes when they differ.
std::string dtypes_of(const io::Checkpoint& checkpoint);
// Field names are those of config.json.
nlohmann::ordered_json model_json(const io::ModelConfig& config, const io::Checkpoint& checkpoint,
                                  const std::vector<LayerRows>& layers);

}  // namespace neuronmm::apps
