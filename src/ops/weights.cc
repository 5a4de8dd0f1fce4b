#include "ops/weights.h"

namespace neuronmm::ops {
namespace {

// A byte times a bf16 scale has at most 15 significant bits: exact in fp32, too. A scale belongs to
// a row and a group of 128 columns, so it changes where a group begins.
template <typename Out>
void dequantize(const WeightView& weight, int64_t first, int64_t count, Out* out) {
  const int64_t columns = weight.columns(), row = first / columns, column = first % columns;
  NMM_CHECK(weight.dtype == DType::kI8 && column + count <= columns);
  const auto* const bytes = reinterpret_cast<const int8_t*>(weight.data) + first;
  float scale = 0;
  for (int64_t j = 0; j < count; ++j) {
    if (j == 0 || (column + j) % kQuantGroup == 0) {
      const int64_t group = (column + j) / kQuantGroup;
      neuronmm::to_floats(weight.scales, row * weight.scales.columns() + group, 1, &scale);
    }
    out[j] = static_cast<Out>(scale) * static_cast<Out>(bytes[j]);
  }
}

}  // namespace

void to_floats(const WeightView& weight, int64_t first, int64_t count, float* out) {
  if (weight.quantized()) return dequantize(weight, first, count, out);
  neuronmm::to_floats(weight, first, count, out);
}

void to_doubles(const WeightView& weight, int64_t first, int64_t count, double* out) {
  if (weight.quantized()) return dequantize(weight, first, count, out);
  neuronmm::to_doubles(weight, first, count, out);
}

std::vector<int32_t> others(const Pivots& pivots) {
  std::vector<int32_t> rest;
  auto pivot = pivots.index.begin();
  for (int32_t i = 0; i < pivots.features(); ++i) {
    if (pivot != pivots.index.end() && *pivot == i) {
      ++pivot;
    } else {
      rest.push_back(i);
    }
  }
  return rest;
}

int64_t LinearWeight::parameters() const {
  int64_t total = bias.empty() ? 0 : bias.size();
  for (const WeightView* weight : {&w_t, &u_t, &v_t, &in.map_t, &out.map_t}) {
    if (!weight->empty()) total += weight->size();
  }
  return total;
}

int64_t LinearWeight::stored_bytes() const {
  int64_t total = bias.empty() ? 0 : bias.size_bytes();
  for (const WeightView* weight : {&w_t, &u_t, &v_t, &in.map_t, &out.map_t}) {
    if (!weight->empty()) total += weight->stored_bytes();
  }
  return total;
}

}  // namespace neuronmm::ops
