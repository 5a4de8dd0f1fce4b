#pragma once
// This file holds the parts that all kernels share: loading a block of an operand into SBUF, and
// summing PSUM results over the blocks of a contraction. All functions emit instructions through
// the Builder of a Context. Mistakes of a kernel's author fail a CHECK.

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "trainium/kernels/kernel.h"
#include "trainium/tile/builder.h"

namespace neuronmm::kernels {

// Returns all of a dimension as one tile.
tile::Tile whole(int64_t dimension);
// Returns the same tile, `offset` elements further. Kernels with pivots use it for the columns
// after the pivots.
tile::Tile shifted(tile::Tile tile, int64_t offset);

// Returns the size of a block in elements, which is never larger than the dimension.
inline int64_t block_size(int64_t tiles, int64_t tile, int64_t dimension) {
  return tiles * tile < dimension ? tiles * tile : dimension;
}

// Returns the largest tile of at most 512 elements, in steps of 128, that divides a block of
// `tiles` x 128.
int64_t moving_tile(int64_t tiles);

// The state that the functions of one kernel pass around.
struct Context {
  tile::Builder& b;
  DType dtype;
  DType accumulate;
  // PSUM banks that rotate through the whole kernel. `psum` holds sums [128, 512] in fp32.
  // `transposed` holds results [128, 128] in `dtype`, if the kernel transposes on the Tensor
  // engine.
  tile::BufferId psum, transposed = -1;

  // `banks_kept` banks are left to the kernel, in addition to those of `psum` and `transposed`.
  Context(tile::Builder& builder, const KernelOptions& options, bool transposes = false,
          int64_t banks_kept = 0);
  // Allocates the next PSUM bank and returns the access to a tile of it.
  tile::Access new_psum(const tile::Slice& partitions, const tile::Slice& columns) const;
};

// Loops over the blocks of a dimension. All blocks except the last are whole, and the last block
// has a size of its own, so no size depends on a loop.
template <typename Body>
void loop_blocks(tile::Builder& b, std::string_view name, const tile::Tile& dimension,
                 const tile::Step& step, const Body& body) {
  const int64_t remainder = dimension.size.max % step;
  const tile::Tile blocks{.start = dimension.start,
                          .size = {.max = dimension.size.max - remainder}};
  constexpr auto kCarried = tile::Builder::Iterations::kCarried;
  if (blocks.size.max > 0) b.loop(name, blocks, step, body, kCarried);
  if (remainder > 0) {
    body(tile::Tile{
        .start = dimension.start + blocks.size.max, .size = {.max = remainder}, .step = step});
  }
}

// Loads the rows `k` and columns `n` of w [K, N] as [128, row tiles, columns] into a new SBUF
// buffer. If w is a view [128, tiles, N] (contiguous.h), the whole tiles are one transfer. In that
// case `k` must have the same size in all iterations.
tile::BufferId load_block(const Context& c, std::string_view name, tile::BufferId w,
                          const tile::Tile& k, const tile::Tile& n, int64_t copies);

// Loads the same block into an existing buffer.
void fill_block(const Context& c, tile::BufferId block, tile::BufferId w, const tile::Tile& k,
                const tile::Tile& n);
bool is_tiled(const Context& c, tile::BufferId w);  // Returns true if w is a view [128, tiles, N].
tile::Slice tiles_of(const tile::Tile& k);  // The whole tiles of k, along the dimension of tiles.

// The engine that transposes a natural X.
enum class TransposeBy { kDma, kTensorEngine };
// The left operand X of a product: its buffer, its layout and the engine that transposes it.
struct LeftOperand {
  tile::BufferId buffer;
  Layout layout;
  TransposeBy transpose_by = TransposeBy::kTensorEngine;
};
// Returns true if the Tensor engine transposes X, which needs a Context with `transposes`. The DMA
// transposes only 2-byte elements (nki.isa.dma_transpose), so fp32 always takes the Tensor engine.
bool transposes_on_tensor_engine(Layout layout, TransposeBy by, DType dtype);
// Loads X^T for the columns `k` and rows `m` of X, as [128, k tiles, rows] in SBUF. If X^T is in
// HBM, it loads directly. Otherwise the DMA or the Tensor engine transposes X on the way.
tile::BufferId load_left(const Context& c, std::string_view name, const LeftOperand& x,
                         const tile::Tile& k, const tile::Tile& m, int64_t copies);

// A sum over the blocks of a contraction. It stays in SBUF between the blocks. If there is only one
// block, its PSUM result is copied.
class BlockSum {
 public:
  BlockSum(const Context& c, std::string_view name, DType dtype, const Shape& shape, int64_t copies,
           int64_t blocks);
  // Returns a sum that begins with the contents of the buffer.
  static BlockSum adding_to(const Context& c, tile::BufferId buffer);
  // Returns the dtype for sums over `blocks` blocks. The sum of one block is rounded at once to
  // c.dtype.
  static DType dtype_for(const Context& c, int64_t blocks) {
    return blocks == 1 ? c.dtype : c.accumulate;
  }

  // Zeroes the tiles of [partitions, columns], with the partitions in tiles of 128.
  void start(std::string_view loop, const tile::Tile& partitions, const tile::Tile& columns) const;
  // Adds a PSUM result to a tile of the sum, or copies it there if there is only one block.
  void add(std::initializer_list<tile::Slice> slices, const tile::Access& psum) const;
  tile::Access operator()(std::initializer_list<tile::Slice> slices) const {
    return tile::at(sums_, slices);
  }
  tile::BufferId buffer() const { return sums_; }

 private:
  enum class InitialValue { kZero, kFirstResult, kBufferContent };
  BlockSum(const Context& c, tile::BufferId sums, InitialValue initial_value)
      : c_(c), sums_(sums), initial_value_(initial_value) {}

  const Context& c_;
  tile::BufferId sums_;
  InitialValue initial_value_;
};

// Stores `sums` [rows, columns], with one row per partition, to `y`. Rounds the sums to the
// operands' dtype if they are wider.
void store_rounded(const Context& c, const tile::Access& y, const tile::Access& sums,
                   const tile::Tile& rows, const tile::Tile& columns);

}  // namespace neuronmm::kernels
