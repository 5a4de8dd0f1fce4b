#include "gguf/block_format.h"

#include <algorithm>
#include <array>

#include "gguf/dequantize.h"

namespace neuronmm::gguf {

int64_t stored_row(int64_t row, int64_t head_rows) {
  if (head_rows == 0) return row;
  const int64_t half = head_rows / 2, in_head = row % head_rows;
  return row - in_head + in_head % half * 2 + in_head / half;
}

int64_t BlockFormat::size_bytes(const Shape& shape) const {
  return TensorView{.shape = shape}.size() / type_.block_elements * type_.block_bytes;
}

void BlockFormat::read(const TensorView& tensor, int64_t first, int64_t count, float* out) const {
  const int64_t columns = tensor.shape.back();
  const int64_t row_bytes = columns / type_.block_elements * type_.block_bytes;
  while (count > 0) {
    const int64_t row = first / columns, column = first % columns;
    const int64_t here = std::min(count, columns - column);
    read_in_row(tensor.data + stored_row(row, head_rows_) * row_bytes, column, here, out);
    first += here;
    count -= here;
    out += here;
  }
}

// Whole blocks are written in place. A block of which only a part is wanted is read into a buffer.
void BlockFormat::read_in_row(const std::byte* row, int64_t first, int64_t count,
                              float* out) const {
  constexpr int64_t kLargestBlock = 256;
  const int64_t size = type_.block_elements;
  while (count > 0) {
    const std::byte* const block = row + first / size * type_.block_bytes;
    const int64_t skipped = first % size, whole = count / size * size;
    int64_t here = whole;
    if (skipped == 0 && whole > 0) {
      dequantize(type_, block, whole, out);
    } else {
      std::array<float, kLargestBlock> values;
      dequantize(type_, block, size, values.data());
      here = std::min(count, size - skipped);
      std::copy_n(values.begin() + skipped, here, out);
    }
    first += here;
    count -= here;
    out += here;
  }
}

}  // namespace neuronmm::gguf
