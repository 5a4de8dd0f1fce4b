// The order in which products of many rows use the tiles of Intel AMX, for one instruction set (see
// kernels.h, amx_tiles-inl.h). Highway includes this file once per target.
//
// A part of a product is computed panel by panel. A panel's depth is cut into pieces of 16 KiB of
// weights, and all rows pass over one piece before the next one begins. So the weights come from
// the first-level cache and the rows from the second-level cache, while the next piece is fetched
// from memory. K itself is cut first if the rows are deeper than that cache (PackedRows::k_block).
// The sums pass through memory in between, which changes no bits.
//
// Measured on an Intel CPU of 2024 (docs/measurements/cpu_speed.md).

#if defined(NEURONMM_CPU_AMX_PIECES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_AMX_PIECES_INL_H_
#undef NEURONMM_CPU_AMX_PIECES_INL_H_
#else
#define NEURONMM_CPU_AMX_PIECES_INL_H_
#endif

#include <span>
#include <vector>

#include "cpu/buffer.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Some neighbouring rows k of one panel.
struct Piece {
  const uint32_t* words;  // in the packed panel, from first_k on
  int64_t first_k, count;
  int64_t size_words;
  const PackedMatrix* matrix;
  const uint32_t* panel;  // its first word

  // Asks for one of `shares` shares of the words that follow.
  HWY_INLINE void prefetch_next(int64_t share, int64_t shares) const {
    constexpr int64_t kCacheLine = 16;
    const int64_t lines = (size_words / kCacheLine + shares - 1) / shares;
    const int64_t end = std::min(size_words, (share + 1) * lines * kCacheLine);
    for (int64_t i = share * lines * kCacheLine; i < end; i += kCacheLine) {
#if HWY_ARCH_X86
      __builtin_prefetch(words + size_words + i, 0, 2);  // into the second-level cache
#else
      hwy::Prefetch(words + size_words + i);
#endif
    }
  }
};

// Where the sums of all rows of a part begin and go, for one panel and one block of K. Between
// pieces they are in `own`, which has kPanel columns.
struct PanelSums {
  const float* init;  // null for 0
  int64_t init_stride;
  float* own;
  float* y;
  int64_t y_stride;

  // Asks for the lines of y that these rows will write. They are far apart.
  HWY_INLINE void prefetch_y(int64_t row, int64_t rows) const {
    for (int64_t r = row; r < row + rows; ++r) {
      __builtin_prefetch(y + r * y_stride, 1);
      __builtin_prefetch(y + r * y_stride + kPanel - 1, 1);
    }
  }
  // Returns the sums from row `row` on.
  HWY_INLINE Sums of(int64_t row, bool first, bool last) const {
    Sums sums = {own + row * kPanel, kPanel, own + row * kPanel, kPanel};
    if (first) {
      sums.init = init == nullptr ? nullptr : init + row * init_stride;
      sums.init_stride = init_stride;
    }
    if (last) {
      sums.y = y + row * y_stride;
      sums.y_stride = y_stride;
    }
    return sums;
  }
};

// Multiplies tiles of rows with one panel, for k in [first_k, end_k). The tiles' rows are numbered
// from the first tile on in `sums`. With few tiles memory is the limit, and one piece has all of K,
// unless the product copies weights.
// Measured: asking for weights makes decoding in bf16 a quarter slower.
template <class Product>
void multiply_panel_in_pieces(Product& product, const PackedRows& a,
                              std::span<const TileOfRows> tiles, const PackedMatrix& w,
                              int64_t panel, int64_t first_k, int64_t end_k,
                              const PanelSums& sums) {
  const int64_t shares = std::ssize(tiles);
  const bool many = shares >= kTilesOfPieces;
  const bool cut = many || Product::kCopiesWeights;
  const int64_t depth = cut ? Product::kPieceDepth : end_k - first_k;
  for (int64_t k = first_k; k < end_k; k += depth) {
    const int64_t count = std::min(depth, end_k - k);
    const int64_t before = w.words_before(k);
    const Piece piece = {w.panel(panel) + before, k, count, w.words_before(k + count) - before, &w,
                         w.panel(panel)};
    const bool first = k == first_k, last = k + count == end_k;
    product.begin(a, piece);
    for (int64_t t = 0; t < shares; ++t) {
      const TileOfRows& tile = tiles[static_cast<size_t>(t)];
      const int64_t row = tile.first - tiles.front().first;
      if (many) piece.prefetch_next(t, shares);
      if (last) sums.prefetch_y(row, tile.count);
      product.multiply(a, tile, piece, sums.of(row, first, last));
    }
  }
  product.end();
}

// The counterpart of multiply_part(), with the same bits.
template <class Product>
void multiply_in_pieces(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                        const float* bias, MutableMatrixView y) {
  thread_local Buffer<float> storage;
  thread_local std::vector<TileOfRows> tiles;
  tiles.clear();
  for (int64_t t = 0; t < part.tiles; ++t) tiles.push_back(a.tile(part.first_tile + t));
  const int64_t rows = y.rows;
  float* const own = storage.reserve(rows * kPanel);
  const auto copy = [rows](const float* from, int64_t from_stride, float* to, int64_t to_stride,
                           int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * from_stride, columns, to + r * to_stride);
    }
  };
  Product product;
  const int64_t end_k = part.end_k(a.k);
  for (int64_t first_k = part.first_k; first_k < end_k; first_k += a.k_block) {
    const int64_t end = std::min(end_k, first_k + a.k_block);
    const bool starts = first_k == 0 && !part.add_to_y;
    for (int64_t i = 0; i < part.panels; ++i) {
      const int64_t panel = part.first_panel + i,
                    columns = std::min(kPanel, w.n() - panel * kPanel);
      float* const to = y.data + i * kPanel;
      PanelSums sums = {
          .init = to, .init_stride = y.stride, .own = own, .y = to, .y_stride = y.stride};
      if (columns < kPanel) {  // the last panel must not touch what is beside y
        if (!starts) copy(to, y.stride, own, kPanel, columns);
        sums = {.init = own, .init_stride = kPanel, .own = own, .y = own, .y_stride = kPanel};
      }
      if (starts) {
        sums.init = bias == nullptr ? nullptr : bias + panel * kPanel;
        sums.init_stride = 0;
      }
      multiply_panel_in_pieces(product, a, tiles, w, panel, first_k, end, sums);
      if (columns < kPanel) copy(own, kPanel, to, y.stride, columns);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_PIECES_INL_H_
