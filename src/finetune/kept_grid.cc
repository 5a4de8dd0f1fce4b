#include "finetune/kept_grid.h"

#include <cstring>

namespace neuronmm::finetune {
namespace {

// Copies the bf16 scales and the groups of a rounded weight in a folder.
ops::QuantizedWeight grid_of(const ops::WeightView& weight) {
  ops::QuantizedWeight grid = {weight.rows(), weight.columns(), {}, {}, weight.format};
  grid.scales.resize(static_cast<size_t>(weight.scales.size()));
  std::memcpy(grid.scales.data(), weight.scales.data, grid.scales.size() * sizeof(bf16));
  if (weight.format.bits != 4) return grid;
  grid.multipliers.resize(static_cast<size_t>(weight.groups.size()));
  std::memcpy(grid.multipliers.data(), weight.groups.data, grid.multipliers.size());
  return grid;
}

}  // namespace

KeptGrid::KeptGrid(const ops::WeightView& weight, const LowBitFormat& format) {
  if (weight.quantized()) {
    grid_ = grid_of(weight);
  } else if (format.bits == 8) {
    grid_ = {weight.rows(), weight.columns(), {}, {}, format};
  } else {
    grid_ = ops::quantize(weight, format);
    grid_.values = {};
  }
}

ops::QuantizedWeight KeptGrid::round(const TensorView& weight) const {
  return grid_.format.bits == 8 ? ops::quantize(weight) : ops::quantize_onto(weight, grid_);
}

}  // namespace neuronmm::finetune
