#include "ops/backend.h"

#include <cmath>

namespace neuronmm::ops {

// Both are rare enough that a backend without kernels of its own may use these loops.
void Backend::scale(float factor, MutableMatrixView y) const {
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) y.row(i)[j] *= factor;
  }
}

void Backend::soft_cap(float cap, MutableMatrixView y) const {
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) {
      const double value = y.row(i)[j];
      y.row(i)[j] = static_cast<float>(double{cap} * std::tanh(value / double{cap}));
    }
  }
}

}  // namespace neuronmm::ops
