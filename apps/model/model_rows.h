#pragma once
// Describes the MLPs of a model folder matrix by matrix: shapes, ranks, parameters and bytes.
// `inspect` prints these rows, and `serve` reports sizes with them. Only read_layers() can fail.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::apps {

// An MLP matrix W[K, N]. It is dense (r = 0) or has rank r, which means two factors or r pivots.
// The counts include the map of the matrix's own pivots, and those of all experts of a mixture.
struct MatrixRow {
  int64_t in = 0, rank = 0, out = 0;  // K, r and N
  int64_t parameters = 0, bytes = 0;
  // The parameters of the matrix without compression, or of gate for pivots that gate and up share
  // and for bases.
  int64_t dense = 0;

  bool operator==(const MatrixRow&) const = default;
};
inline constexpr std::array kMatrixNames = {"gate", "up", "down"};

// The matrices of one layer's MLP.
struct LayerRows {
  std::array<MatrixRow, 3> matrices;  // gate, up, down
  // The map of pivots that gate and up share, or the basis that the inputs of all experts share,
  // and the basis of their outputs. Rank 0: there is none.
  MatrixRow input, output;
  int64_t neurons = 0;  // the width between gate and down, of one expert
  int64_t experts = 0;  // 0: the layer is no mixture of experts

  bool operator==(const LayerRows&) const = default;
  // Returns the sums of parameters and bytes.
  MatrixRow total() const {
    MatrixRow sum = {.parameters = input.parameters + output.parameters,
                     .bytes = input.bytes + output.bytes};
    for (const MatrixRow& matrix : matrices) {
      sum.dense += matrix.dense;
      sum.parameters += matrix.parameters;
      sum.bytes += matrix.bytes;
    }
    return sum;
  }
};

// Returns the rows of each layer. Names and shapes are read by the function that loads a model, so
// the rows show the model that would run. Errors: weights that cannot be loaded.
Result<std::vector<LayerRows>> read_layers(const io::Checkpoint& checkpoint,
                                           const io::ModelConfig& config);

// Returns the share of the parameters that compression kept. The share may differ from 1 - ratio,
// because sizes are rounded to blocks and layers may get different sizes.
double kept_share(const MatrixRow& row);
// Returns the bits per parameter, or 0 if there are no parameters.
double bits_per_weight(int64_t bytes, int64_t parameters);
// Returns the bytes that the folder would have with dense MLPs of the shape in the config. A weight
// of the dense MLPs takes as many bytes as a weight of the folder's MLPs does on average. If the
// folder is quantized, all weights take 2 bytes. Assumed: a quantized model was made from bf16.
int64_t dense_bytes(const io::ModelConfig& config, const io::Checkpoint& checkpoint,
                    const std::vector<LayerRows>& layers);
// Returns the dtypes of the tensors, each once, such as "BF16" or "BF16, F32".
std::string dtypes_of(const io::Checkpoint& checkpoint);
// Returns the description of the whole model as JSON. The fields of the config have the same names
// as in config.json. `layers` are those of read_layers().
nlohmann::ordered_json model_json(const io::ModelConfig& config, const io::Checkpoint& checkpoint,
                                  const std::vector<LayerRows>& layers);

}  // namespace neuronmm::apps
