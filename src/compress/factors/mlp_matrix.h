#pragma once
// Names for the three matrices of an MLP, which factorizations and plans of ranks use.

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
const ops::LinearWeight& weight_of(const ops::MlpWeight& mlp, MlpMatrix matrix);

// A function that passes the MLP of a layer to `use`. The MLP may be read until `use` returns.
using WithMlp =
    std::function<Status(int64_t layer, const std::function<void(const ops::MlpWeight&)>& use)>;

}  // namespace neuronmm::compress
