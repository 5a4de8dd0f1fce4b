#include "ops/weights.h"

#include <algorithm>

namespace neuronmm::ops {

void to_doubles(const WeightView& weight, int64_t first, int64_t count, double* out) {
  if (!weight.quantized()) {
    to_doubles(static_cast<const TensorView&>(weight), first, count, out);
    return;
  }
  const int64_t columns = weight.columns(), row = first / columns, column = first % columns;
  NMM_CHECK(weight.dtype == DType::kI8 && column + count <= columns);
  const auto* const bytes = reinterpret_cast<const int8_t*>(weight.data) + first;
  double scale = 0;
  for (int64_t j = 0; j < count; ++j) {
    if (j == 0 || (column + j) % kQuantGroup == 0) {
      const int64_t group = (column + j) / kQuantGroup;
      neuronmm::to_doubles(weight.scales, row * weight.scales.columns() + group, 1, &scale);
    }
    out[j] = scale * bytes[j];
  }
}

}  // namespace neuronmm::ops
