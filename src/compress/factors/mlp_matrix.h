#pragma once
// Names for the three matrices of an MLP. Factorizations (layer_factorization.h), plans of ranks
// (sizes/plan.h) and the writer of models (output/model_writer.cc) use them.

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "ops/weights.h"

namespace neuronmm::compress {

enum class MlpMatrix { kGate, kUp, kDown };
inline constexpr std::array kMlpMatrices = {MlpMatrix::kGate, MlpMatrix::kUp, MlpMatrix::kDown};
// Returns "gate", "up" or "down".
std::string_view matrix_name(MlpMatrix matrix);
// Returns that weight of `mlp`, which must outlive the reference.
const ops::LinearWeight& weight_of(const ops::MlpWeight& mlp, MlpMatrix matrix);

// A function that passes the MLP of a layer to `use`. The MLP may be read until `use` returns.
// DenseReference::divergence_of() (sizes/dense_reference.h) calls such functions once for each
// layer, and narrowed_mlps() (narrow_layers.h) makes one. If the MLP cannot be read, the function
// returns an error and does not call `use`.
using WithMlp =
    std::function<Status(int64_t layer, const std::function<void(const ops::MlpWeight&)>& use)>;

}  // namespace neuronmm::compress
