// The order in which products of many rows use the tiles of Intel AMX, for one instruction set (see
// kernels.h, amx_tiles-inl.h). Highway includes this file once per target.
//
// A part of a product is computed panel by panel. A panel's depth is cut into pieces of 8 to 16 KiB
// of weights, and all rows pass over one piece before the next one begins. So the weights come from
// the first-level cache and the rows from the second-level cache, while the next piece is fetched
// from memory. K itself is cut first if the rows are deeper than that cache (PackedRows::k_block).
// The sums pass through memory in between, which changes no bits.
//
// Few rows, such as those of an expert, fit into the first-level cache for a piece of K. All panels
// of the part then follow each other before the next piece of K.
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

inline constexpr int64_t kCacheLineWords = 16;
HWY_INLINE void prefetch_to_second_level(const void* line) {
#if HWY_ARCH_X86
  __builtin_prefetch(line, 0, 2);
#else
  hwy::Prefetch(static_cast<const char*>(line));
#endif
}

// The packed words of some neighbouring rows k of one panel.
struct WordsOfRows {
  const uint32_t* words = nullptr;
  int64_t count = 0;  // of rows
  int64_t ahead = 0;  // the distance from `words` to words that will be read some pieces later
};

// Some neighbouring rows k of one panel.
struct Piece {
  WordsOfRows now;  // from first_k on
  int64_t first_k;
  const PackedMatrix* matrix;
  const uint32_t* panel;  // its first word
  int64_t tiles;          // the number of tiles that pass over the piece
  int64_t highest_tile;   // the rows of the highest of them
  WordsOfRows next;       // the piece that is multiplied next, or no words if it is not known

  // Asks for one of `shares` shares of the words that follow.
  HWY_INLINE void prefetch_next(int64_t share, int64_t shares) const {
    const int64_t size = now.ahead;
    const int64_t lines = (size / kCacheLineWords + shares - 1) / shares;
    const int64_t end = std::min(size, (share + 1) * lines * kCacheLineWords);
    for (int64_t i = share * lines * kCacheLineWords; i < end; i += kCacheLineWords) {
      prefetch_to_second_level(now.words + size + i);
    }
  }
};

// The memory from which the sums of all rows of a part start and to which they go, for one panel
// and one block of K. Between pieces they are in `own`, which has kPanel columns.
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

// One part of a product, whose pieces are multiplied one after the other.
template <class Product>
class PiecesOfPart {
 public:
  PiecesOfPart(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
               const float* bias, MutableMatrixView y)
      : a_(a), w_(w), part_(part), bias_(bias), y_(y) {
    thread_local std::vector<TileOfRows> tiles;
    thread_local std::vector<PanelSums> sums;
    thread_local Buffer<float> storage;
    tiles.clear();
    for (int64_t t = 0; t < part.tiles; ++t) {
      tiles.push_back(a.tile(part.first_tile + t));
      highest_tile_ = std::max(highest_tile_, tiles.back().count);
    }
    tiles_ = tiles;
    by_depth_ = Product::kReadsAhead && part.tiles < kTilesOfPieces;
    sums.resize(static_cast<size_t>(part.panels));
    sums_ = sums;
    own_ = storage.reserve(y.rows * kPanel * (by_depth_ ? part.panels : 1));
  }

  void multiply() {
    const int64_t end_k = part_.end_k(a_.k);
    for (int64_t first_k = part_.first_k; first_k < end_k; first_k += a_.k_block) {
      multiply_block(first_k, std::min(end_k, first_k + a_.k_block));
    }
  }

 private:
  // With few tiles memory is the limit, and one piece has all of K, unless the product copies
  // weights. Measured: asking for weights makes decoding in bf16 a quarter slower.
  void multiply_block(int64_t first_k, int64_t end_k) {
    first_k_ = first_k;
    end_k_ = end_k;
    const bool cut = part_.tiles >= kTilesOfPieces || Product::kCopiesWeights;
    depth_ = cut ? Product::kPieceDepth : end_k - first_k;
    if (by_depth_) {
      for (int64_t i = 0; i < part_.panels; ++i) begin_panel(i);
      for (int64_t k = first_k; k < end_k; k += depth_) {
        for (int64_t i = 0; i < part_.panels; ++i) multiply_piece(i, k);
      }
      product_.end();
      for (int64_t i = 0; i < part_.panels; ++i) end_panel(i);
      return;
    }
    for (int64_t i = 0; i < part_.panels; ++i) {
      begin_panel(i);
      for (int64_t k = first_k; k < end_k; k += depth_) multiply_piece(i, k);
      product_.end();
      end_panel(i);
    }
  }

  int64_t columns(int64_t i) const {
    return std::min(kPanel, w_.n() - (part_.first_panel + i) * kPanel);
  }
  float* own(int64_t i) const { return own_ + (by_depth_ ? i * y_.rows * kPanel : 0); }
  PanelSums& sums(int64_t i) const { return sums_[static_cast<size_t>(i)]; }

  // The last panel must not touch what is beside y, so its sums are in memory of their own.
  void begin_panel(int64_t i) {
    const bool starts = first_k_ == 0 && !part_.add_to_y;
    float* const to = y_.data + i * kPanel;
    PanelSums& s = sums(i);
    s = {.init = to, .init_stride = y_.stride, .own = own(i), .y = to, .y_stride = y_.stride};
    if (columns(i) < kPanel) {
      if (!starts) copy(to, y_.stride, own(i), kPanel, columns(i));
      s = {.init = own(i), .init_stride = kPanel, .own = own(i), .y = own(i), .y_stride = kPanel};
    }
    if (starts) {
      s.init = bias_ == nullptr ? nullptr : bias_ + (part_.first_panel + i) * kPanel;
      s.init_stride = 0;
    }
  }
  void end_panel(int64_t i) {
    if (columns(i) < kPanel) copy(own(i), kPanel, y_.data + i * kPanel, y_.stride, columns(i));
  }
  void copy(const float* from, int64_t from_stride, float* to, int64_t to_stride,
            int64_t count) const {
    for (int64_t r = 0; r < y_.rows; ++r) {
      std::copy_n(from + r * from_stride, count, to + r * to_stride);
    }
  }

  // Some pieces later follows the next piece of K. If there is none and all panels of a piece
  // follow each other, it is the first piece of a panel of the thread's next part.
  WordsOfRows words_of(int64_t i, int64_t k) const {
    const int64_t before = w_.words_before(k), count = std::min(depth_, end_k_ - k);
    int64_t ahead = w_.words_before(k + count) - before;
    if (by_depth_ && k + count == end_k_)
      ahead = part_.panels * w_.panel_words() + w_.words_before(first_k_) - before;
    return {w_.panel(part_.first_panel + i) + before, count, ahead};
  }
  // Returns the piece after the one of panel i that begins with row k, within the block of K.
  WordsOfRows words_after(int64_t i, int64_t k) const {
    const bool last_panel = i + 1 == part_.panels, last_k = k + depth_ >= end_k_;
    if (last_panel && last_k) return {};
    if (by_depth_) return last_panel ? words_of(0, k + depth_) : words_of(i + 1, k);
    return last_k ? words_of(i + 1, first_k_) : words_of(i, k + depth_);
  }

  // All rows pass over the piece. They are numbered from the first tile on in the sums.
  void multiply_piece(int64_t i, int64_t k) {
    const WordsOfRows now = next_.words != nullptr ? next_ : words_of(i, k);
    next_ = words_after(i, k);
    const int64_t count = now.count, shares = std::ssize(tiles_);
    const Piece piece = {.now = now,
                         .first_k = k,
                         .matrix = &w_,
                         .panel = w_.panel(part_.first_panel + i),
                         .tiles = shares,
                         .highest_tile = highest_tile_,
                         .next = next_};
    const bool first = k == first_k_, last = k + count == end_k_;
    product_.begin(a_, piece);
    for (int64_t t = 0; t < shares; ++t) {
      const TileOfRows& tile = tiles_[static_cast<size_t>(t)];
      const int64_t row = tile.first - tiles_.front().first;
      if (shares >= kTilesOfPieces && !Product::kReadsAhead) piece.prefetch_next(t, shares);
      if (last) sums(i).prefetch_y(row, tile.count);
      product_.multiply(a_, tile, piece, sums(i).of(row, first, last));
    }
  }

  const PackedRows& a_;
  const PackedMatrix& w_;
  const ProductPart& part_;
  const float* const bias_;
  const MutableMatrixView y_;
  Product product_;
  std::span<const TileOfRows> tiles_;
  std::span<PanelSums> sums_;  // of each panel
  int64_t highest_tile_ = 0;
  WordsOfRows next_;  // of the piece that is multiplied next, or no words before the first one
  float* own_ = nullptr;
  // Whether the panels of a piece of K follow each other, so that rows stay in cache.
  bool by_depth_ = false;
  int64_t first_k_ = 0, end_k_ = 0, depth_ = 0;
};

// The counterpart of multiply_part(), with the same bits.
template <class Product>
void multiply_in_pieces(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                        const float* bias, MutableMatrixView y) {
  PiecesOfPart<Product>(a, w, part, bias, y).multiply();
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_PIECES_INL_H_
