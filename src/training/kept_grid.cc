#include "training/kept_grid.h"

#include <cstring>

#include "base/parallel.h"
#include "model/tensor_specs.h"
#include "model/weight_reader.h"

namespace neuronmm::training {
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

template <typename Body>
void for_each_element(const Rows<float>& rows, const Body& body) {
  parallel_for(rows.rows(), [&](int64_t row) {
    for (int64_t i = row * rows.columns(); i < (row + 1) * rows.columns(); ++i) body(i);
  });
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

ops::QuantizedWeight KeptGrid::round(const Rows<float>& weight) const {
  return round(TensorView{DType::kF32,
                          {weight.rows(), weight.columns()},
                          reinterpret_cast<const std::byte*>(weight.data())});
}

Rows<float> KeptGrid::rounded(const Rows<float>& weight) const {
  return values_of(round(weight).view());
}

// The weights that round to one value form an interval, so that the largest share that fits wins.
Rows<float> KeptGrid::near_floats(const Rows<float>& values, const Rows<float>& floats) const {
  // Assumed: from a sixteenth of the way on, a weight is no longer in the middle of its interval.
  constexpr float kShares[] = {0.0625F, 0.125F, 0.25F, 0.5F, 1.0F};
  Rows<float> near = copy_of<float>(values.view()), tried(values.rows(), values.columns());
  for (const float share : kShares) {
    for_each_element(values, [&](int64_t i) {
      tried.data()[i] = values.data()[i] + share * (floats.data()[i] - values.data()[i]);
    });
    const Rows<float> reached = rounded(tried);
    for_each_element(values, [&](int64_t i) {
      if (reached.data()[i] == values.data()[i]) near.data()[i] = tried.data()[i];
    });
  }
  return near;
}

Rows<float> values_of(const ops::WeightView& rounded) {
  Rows<float> values(rounded.rows(), rounded.columns());
  parallel_for(values.rows(), [&](int64_t i) {
    to_floats(rounded, i * values.columns(), values.columns(), values.row(i));
  });
  return values;
}

Result<std::optional<KeptGrid>> find_grid(const Parameter<float>& parameter,
                                          const io::Checkpoint& checkpoint,
                                          const io::ModelConfig& config,
                                          const io::Quantization& quantization) {
  const auto format = model::rounding_of(parameter.name, config, quantization);
  if (!format) return std::optional<KeptGrid>();
  NMM_ASSIGN(const auto weight, model::require_weight(checkpoint, config, parameter.name,
                                                      {parameter.rows, parameter.columns}));
  return std::optional<KeptGrid>(KeptGrid(weight, *format));
}

}  // namespace neuronmm::training
