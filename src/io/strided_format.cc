#include "io/strided_format.h"

#include <algorithm>

namespace neuronmm::io {

void StridedFormat::read(const TensorView& tensor, int64_t first, int64_t count, float* out) const {
  const int64_t columns = shape_.at(1), size = dtype_size_bytes(dtype_);
  first += (tensor.data - first_) / size;
  while (count > 0) {
    const int64_t row = first / columns, column = first % columns;
    const int64_t here = std::min(count, columns - column);
    const TensorView all = {dtype_, {1}, first_};
    const int64_t from = row * row_step_ + column * column_step_;
    if (column_step_ == 1) {
      to_floats(all, from, here, out);
    } else {
      for (int64_t i = 0; i < here; ++i) to_floats(all, from + i * column_step_, 1, out + i);
    }
    first += here;
    out += here;
    count -= here;
  }
}

}  // namespace neuronmm::io
