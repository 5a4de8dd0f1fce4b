#pragma once
// The three matrices of an MLP by name.

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "ops/weights.h"

namespace neuronmm::compress {

enum class MlpMatrix { kGate, kUp, kDown };
inline constexpr std::array kMlpMatrices = {MlpMatrix::kGate, MlpMatrix::kUp, MlpMatrix::kDown};
std::string_view matrix_name(MlpMatrix matrix);  // "gate", "up", "down"
const ops::LinearWeight& weight_of(const ops::MlpWeight& mlp, MlpMatrix matrix);

// Hands the MLP of a layer to `use`, which may read it until it returns.
using WithMlp =
    std::function<Status(int64_t layer, const std::function<void(const ops::MlpWeight&)>& use)>;

}  // namespace neuronmm::compress
