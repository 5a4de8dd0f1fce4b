#pragma once
// The pieces that the kernels share: bringing a block of an operand into SBUF, and summing PSUM
// results over the blocks of a contraction.

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "trainium/kernels/kernel.h"
#include "trainium/tile/builder.h"

namespace neuronmm::kernels {

// All of a dimension as one tile.
tile::Tile whole(int64_t dimension);
// The same tile, `offset` elements further: where the columns behind the pivots lie.
tile::Tile shifted(tile::Tile tile, int64_t offset);

// A block never holds more than its dimension.
inline int64_t block_size(int64_t tiles, int64_t tile, int64_t dimension) {
  return tiles * tile < dimension ? tiles * tile : dimension;
}

// The largest tile of at most 512 elements, in steps of 128, that divides a block of `tiles` x 128.
int64_t moving_tile(int64_t tiles);

// What one kernel's functions pass around.
struct Context {
  tile::Builder& b;
  DType dtype;
  DType accumulate;
  // Banks that rotate through the whole kernel: sums [128, 512] fp32, and, if the kernel transposes
  // on the Tensor engine, results [128, 128] of that in `dtype`.
  tile::BufferId psum, transposed = -1;

  Context(tile::Builder& builder, const KernelOptions& options, bool transposes = false);
  tile::Access new_psum(const tile::Slice& partitions, const tile::Slice& columns) const;
};

// The blocks of a dimension, all but the last whole: the last has a size of its own, and no size
// depends on a loop.
template <typename Body>
void loop_blocks(tile::Builder& b, std::string_view name, const tile::Tile& dimension,
                 const tile::Step& step, const Body& body) {
  const int64_t rest = dimension.size.max % step;
  const tile::Tile blocks{.start = dimension.start, .size = {.max = dimension.size.max - rest}};
  constexpr auto kCarried = tile::Builder::Iterations::kCarried;
  if (blocks.size.max > 0) b.loop(name, blocks, step, body, kCarried);
  if (rest > 0) {
    body(tile::Tile{
        .start = dimension.start + blocks.size.max, .size = {.max = rest}, .step = step});
  }
}

// The rows `k` and columns `n` of w [K, N], as [128, row tiles, columns] in SBUF. Of a w that is a
// view [128, tiles, N] (contiguous.h) the whole tiles are one transfer; then `k` has the same size
// in all iterations.
tile::BufferId load_block(const Context& c, std::string_view name, tile::BufferId w,
                          const tile::Tile& k, const tile::Tile& n, int64_t copies);

// The same into a buffer that is there.
void fill_block(const Context& c, tile::BufferId block, tile::BufferId w, const tile::Tile& k,
                const tile::Tile& n);
bool is_tiled(const Context& c, tile::BufferId w);  // a view [128, tiles, N]
tile::Slice tiles_of(const tile::Tile& k);          // its whole tiles, along that dimension

// X^T for the columns `k` and rows `m` of X, as [128, k tiles, rows] in SBUF. X^T in HBM loads
// directly; X is transposed on the way, by DMA or by the Tensor engine.
enum class TransposeBy { kDma, kTensorEngine };
struct LeftOperand {
  tile::BufferId buffer;
  Layout layout;
  TransposeBy by = TransposeBy::kTensorEngine;
};
// Needs a Context that `transposes`. The DMA transposes 2-byte elements only
// (nki.isa.dma_transpose).
bool transposes_on_tensor_engine(Layout layout, TransposeBy by, DType dtype);
tile::BufferId load_left(const Context& c, std::string_view name, const LeftOperand& x,
                         const tile::Tile& k, const tile::Tile& m, int64_t copies);

// A sum over the blocks of a contraction, kept in SBUF between them. One block needs no sum: its
// PSUM result is copied.
class BlockSum {
 public:
  BlockSum(const Context& c, std::string_view name, DType dtype, const Shape& shape, int64_t copies,
           int64_t blocks);
  // A sum that begins with what the buffer holds.
  static BlockSum onto(const Context& c, tile::BufferId buffer);
  // The dtype that sums of `blocks` blocks of results in c.dtype are kept in.
  static DType dtype_for(const Context& c, int64_t blocks) {
    return blocks == 1 ? c.dtype : c.accumulate;
  }

  // Zeroes the tiles of [partitions, columns]; partitions in tiles of 128.
  void start(std::string_view loop, const tile::Tile& partitions, const tile::Tile& columns) const;
  void add(std::initializer_list<tile::Slice> slices, const tile::Access& psum) const;
  tile::Access operator()(std::initializer_list<tile::Slice> slices) const {
    return tile::at(sums_, slices);
  }
  tile::BufferId buffer() const { return sums_; }

 private:
  enum class Begin { kZero, kFirstResult, kContent };
  BlockSum(const Context& c, tile::BufferId sums, Begin begin)
      : c_(c), sums_(sums), begin_(begin) {}

  const Context& c_;
  tile::BufferId sums_;
  Begin begin_;
};

// Stores `sums` [rows, columns of one partition row] to `y`, rounded to its dtype if need be.
void store_rounded(const Context& c, const tile::Access& y, const tile::Access& sums,
                   const tile::Tile& rows, const tile::Tile& columns);

}  // namespace neuronmm::kernels
