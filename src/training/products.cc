#include "training/products.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/parallel.h"
#include "base/pieces.h"
#include "cpu/matmul.h"
#include "cpu/tasks.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

using cpu::kPanel;

// The elements of a row or column that are transposed at a time, for a tile or a panel. A multiple
// of the steps of all layouts. Assumed: rows that are far apart are read along, and a block stays
// in the first-level cache.
constexpr int64_t kChunk = 64;
// The rows of A that are multiplied with all of W before the next rows. Measured on a CPU with AMX
// and 2 MiB of second-level cache: with 288 rows, which stay there, products of 2,048 rows are
// twice as fast as with all rows at once.
constexpr int64_t kBlockRows = 288;
// The panels that a task takes, which read whole cache lines of rows. Assumed.
constexpr int64_t kTaskPanels = 4;

const cpu::Kernels& kernels_of(Precision precision) {
  static const cpu::Kernels& rounded =
      cpu::best_kernels({.most_dot_products = cpu::DotProducts::kInt8AndBf16});
  static const cpu::Kernels& exact = cpu::best_kernels();
  return precision == Precision::kBf16 ? rounded : exact;
}

cpu::WeightType type_of(Precision precision) {
  return precision == Precision::kBf16 ? cpu::WeightType::kBf16 : cpu::WeightType::kFp32;
}

// Transposes a block of 4 x 4 elements.
[[gnu::always_inline]] inline void transpose4(const float* from, int64_t from_stride, float* to,
                                              int64_t to_stride) {
  using Four [[gnu::vector_size(16), gnu::aligned(4)]] = float;
  const auto load = [&](int64_t i) {
    return *reinterpret_cast<const Four*>(from + i * from_stride);
  };
  const auto store = [&](int64_t i, Four x) { *reinterpret_cast<Four*>(to + i * to_stride) = x; };
  const Four a = load(0), b = load(1), c = load(2), d = load(3);
  const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(0, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
  store(1, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
  store(2, __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5));
  store(3, __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
}

// Writes the transpose of from [rows, columns] to `to` [columns, rows].
void transpose(ConstMatrixView from, float* to, int64_t to_stride) {
  const int64_t rows = from.rows / 4 * 4, columns = from.columns / 4 * 4;
  for (int64_t i = 0; i < rows; i += 4) {
    for (int64_t j = 0; j < columns; j += 4) {
      transpose4(from.row(i) + j, from.stride, to + j * to_stride + i, to_stride);
    }
  }
  for (int64_t i = 0; i < from.rows; ++i) {
    for (int64_t j = i < rows ? columns : 0; j < from.columns; ++j) {
      to[j * to_stride + i] = from.row(i)[j];
    }
  }
}

// Writes the words of two rows of a panel in bf16, rounded to nearest even: the first row in the
// low halves, the second in the high halves.
NMM_TRAINING_CLONES void pair_rows(const float* low, const float* high, int64_t count,
                                   uint32_t* words) {
  const auto rounded = [](float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
  };
  for (int64_t i = 0; i < count; ++i) {
    words[i] = rounded(low[i]) >> 16 | (rounded(high[i]) & 0xffff0000u);
  }
}

constexpr std::array<float, kPanel> kZeros = {};

// Writes rows [first, first + rows.rows) of a panel, with `columns` columns each.
void write_panel(uint32_t* panel, int64_t first, ConstMatrixView rows, Precision precision) {
  if (precision == Precision::kFp32) {
    for (int64_t i = 0; i < rows.rows; ++i) {
      std::copy_n(rows.row(i), rows.columns,
                  reinterpret_cast<float*>(panel) + (first + i) * kPanel);
    }
    return;
  }
  for (int64_t i = 0; i < rows.rows; i += 2) {
    const float* const high = i + 1 < rows.rows ? rows.row(i + 1) : kZeros.data();
    pair_rows(rows.row(i), high, rows.columns, panel + (first + i) / 2 * kPanel);
  }
}

}  // namespace

Precision fastest_precision() {
  const cpu::Kernels& kernels = kernels_of(Precision::kBf16);
  return kernels.dot_products == cpu::DotProducts::kInt8AndBf16 ? Precision::kBf16
                                                                : Precision::kFp32;
}

void LeftFactor<float>::pack(ConstMatrixView x, Precision precision) {
  precision_ = precision;
  memory_ = Pooled<float>(x.rows * (x.columns + kPanel) + cpu::kRowPadding);
  const cpu::RowPacker packer(kernels_of(precision), x.rows, x.columns, type_of(precision),
                              memory_.buffer());
  rows_ = packer.rows();
  packer.pack_all(x);
}

void LeftFactor<float>::pack_transposed(ConstMatrixView x, Precision precision) {
  precision_ = precision;
  memory_ = Pooled<float>(x.columns * (x.rows + kPanel) + cpu::kRowPadding);
  const cpu::RowPacker packer(kernels_of(precision), x.columns, x.rows, type_of(precision),
                              memory_.buffer());
  rows_ = packer.rows();
  parallel_for((x.rows + kChunk - 1) / kChunk, [&](int64_t chunk) {
    std::array<float, cpu::kMaxTileRows * kChunk> block;
    const int64_t k = chunk * kChunk, depth = std::min(kChunk, x.rows - k);
    for (int64_t tile = 0; tile < rows_.tiles; ++tile) {
      const int64_t first = rows_.first_row(tile), count = rows_.tile_rows(tile);
      transpose({x.row(k) + first, depth, count, x.stride}, block.data(), kChunk);
      packer.pack(tile, 1, k, {block.data(), count, depth, kChunk});
    }
  });
}

void RightFactor<float>::clear() {
  if (empty()) return;
  memory_.buffer() = matrix_.take_storage();
  matrix_ = {};
  memory_ = {};
}

void RightFactor<float>::allocate(int64_t k, int64_t n, Precision precision) {
  clear();
  const cpu::WeightType type = type_of(precision);
  memory_ = Pooled<uint32_t>(cpu::PackedMatrix::storage_words(k, n, type));
  matrix_ = cpu::PackedMatrix(k, n, type, std::move(memory_.buffer()));
}

void RightFactor<float>::pack(ConstMatrixView w, Precision precision) {
  allocate(w.rows, w.columns, precision);
  const int64_t panels = matrix_.panels(), groups = (panels + kTaskPanels - 1) / kTaskPanels;
  parallel_for(groups, [&](int64_t group) {
    const int64_t end = std::min(panels, (group + 1) * kTaskPanels);
    for (int64_t k = 0; k < w.rows; k += kChunk) {
      const int64_t depth = std::min(kChunk, w.rows - k);
      for (int64_t panel = group * kTaskPanels; panel < end; ++panel) {
        const int64_t first = panel * kPanel, count = std::min(kPanel, w.columns - first);
        write_panel(matrix_.panel_to_write(panel), k, {w.row(k) + first, depth, count, w.stride},
                    precision);
      }
    }
  });
}

void RightFactor<float>::pack_transposed(ConstMatrixView w, Precision precision) {
  allocate(w.columns, w.rows, precision);
  parallel_for(matrix_.panels(), [&](int64_t panel) {
    std::array<float, kPanel * kChunk> block;
    const int64_t first = panel * kPanel, count = std::min(kPanel, w.rows - first);
    for (int64_t k = 0; k < w.columns; k += kChunk) {
      const int64_t depth = std::min(kChunk, w.columns - k);
      transpose({w.row(first) + k, count, depth, w.stride}, block.data(), kPanel);
      write_panel(matrix_.panel_to_write(panel), k, {block.data(), depth, count, kPanel},
                  precision);
    }
  });
}

template <>
void multiply(const LeftFactor<float>& a, const RightFactor<float>& w, MutableMatrixView y,
              bool add) {
  const cpu::PackedRows& rows = a.rows();
  const cpu::PackedMatrix& matrix = w.matrix();
  const cpu::Kernels& kernels = kernels_of(a.precision());
  NMM_CHECK(rows.k <= matrix.k() && y.columns <= matrix.n() && y.rows == rows.rows);
  NMM_CHECK(y.columns == matrix.n() || y.columns % kPanel == 0);
  const int64_t panels = (y.columns + kPanel - 1) / kPanel;
  const int64_t groups = (panels + kTaskPanels - 1) / kTaskPanels;
  const int64_t blocks = (rows.rows + kBlockRows - 1) / kBlockRows;
  // Blocks of K come one after the other, because rows of A that are longer would not stay in
  // cache.
  for (int64_t first_k = 0; first_k < rows.k; first_k += rows.k_block) {
    const int64_t depth = std::min(rows.k_block, rows.k - first_k);
    cpu::for_each_task(blocks * groups, rows.rows * depth * y.columns, [&](int64_t task) {
      const int64_t tile = rows.tiles * (task / groups) / blocks;
      const int64_t end = rows.tiles * (task / groups + 1) / blocks;
      const int64_t row = rows.first_row(tile), panel = task % groups * kTaskPanels;
      const cpu::ProductPart part = {.first_tile = tile,
                                     .tiles = end - tile,
                                     .first_panel = panel,
                                     .panels = std::min(kTaskPanels, panels - panel),
                                     .add_to_y = add || first_k > 0,
                                     .first_k = first_k,
                                     .most_k = depth};
      const int64_t column = panel * kPanel;
      kernels.multiply(rows, matrix, part, nullptr,
                       {y.row(row) + column, rows.first_row(end) - row,
                        std::min(part.panels * kPanel, y.columns - column), y.stride});
    });
  }
}

// The plain version.
template <typename T>
void LeftFactor<T>::pack(MatrixView<const T> x, Precision /*precision*/) {
  values_ = copy_of(x);
}

template <typename T>
void LeftFactor<T>::pack_transposed(MatrixView<const T> x, Precision /*precision*/) {
  values_ = Rows<T>(x.columns, x.rows);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) values_.row(j)[i] = x.row(i)[j];
  }
}

template <typename T>
void RightFactor<T>::pack(MatrixView<const T> w, Precision /*precision*/) {
  values_ = copy_of(w);
}

template <typename T>
void RightFactor<T>::pack_transposed(MatrixView<const T> w, Precision /*precision*/) {
  values_ = Rows<T>(w.columns, w.rows);
  for (int64_t i = 0; i < w.rows; ++i) {
    for (int64_t j = 0; j < w.columns; ++j) values_.row(j)[i] = w.row(i)[j];
  }
}

template <typename T>
void multiply(const LeftFactor<T>& a, const RightFactor<T>& w, MatrixView<T> y, bool add) {
  const Rows<T>&left = a.values(), &right = w.values();
  NMM_CHECK(left.columns() <= right.rows() && y.columns <= right.columns() &&
            y.rows == left.rows());
  for_each_piece(y.rows, left.columns() * y.columns, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      T* const sums = y.row(i);
      if (!add) std::fill_n(sums, y.columns, T{0});
      for (int64_t k = 0; k < left.columns(); ++k) {
        const T factor = left.row(i)[k];
        for (int64_t j = 0; j < y.columns; ++j) sums[j] += factor * right.row(k)[j];
      }
    }
  });
}

template class LeftFactor<double>;
template class RightFactor<double>;
template void multiply(const LeftFactor<double>&, const RightFactor<double>&, MatrixView<double>,
                       bool);

}  // namespace neuronmm::training
