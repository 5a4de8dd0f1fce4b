#include "trainium/kernels/blocks.h"

#include <fmt/format.h>

#include "base/result.h"

namespace neuronmm::kernels {

using tile::Access;
using tile::all;
using tile::at;
using tile::BufferId;
using tile::ceil_div;
using tile::one;
using tile::Slice;
using tile::Tile;
using tile::upto;

// Fails a CHECK if the tiling lacks the parameter, which is a mistake of the kernel's author.
int64_t Tiling::operator[](std::string_view name) const {
  constexpr int64_t kAbsent = -1;
  const int64_t value = value_or(name, kAbsent);
  NMM_CHECK(value != kAbsent);
  return value;
}

// A tiling has only a few parameters, so a linear search costs little compared with making a
// program. The order of the kernel's description is kept.
int64_t Tiling::value_or(std::string_view name, int64_t otherwise) const {
  for (const auto& [key, value] : values_) {
    if (key == name) return value;
  }
  return otherwise;
}

bool Tiling::set(std::string_view name, int64_t value) {
  for (auto& [key, old] : values_) {
    if (key != name) continue;
    old = value;
    return true;
  }
  return false;
}

Tile whole(int64_t dimension) { return {.start = 0, .size = {.max = dimension}}; }

Tile shifted(Tile tile, int64_t offset) {
  tile.start = tile.start + offset;
  return tile;
}

// A matmul streams up to 512 columns. If the tile divides the block, no matmul streams a short
// remainder.
int64_t moving_tile(int64_t tiles) {
  for (int64_t per_tile = kMovingFree / 128; per_tile > 1; --per_tile) {
    if (tiles % per_tile == 0) return per_tile * 128;
  }
  return 128;
}

// All sums of a kernel rotate through the same banks. Two banks are set apart for transposes, whose
// results may have another dtype.
Context::Context(tile::Builder& builder, const KernelOptions& options, bool transposes,
                 int64_t banks_kept)
    : b(builder), dtype(options.dtype), accumulate(options.accumulate) {
  const int64_t banks_to_transpose = transposes ? 2 : 0;
  psum = b.declare_psum("psum", {kPartitions, kMovingFree},
                        kPsumBanks - banks_to_transpose - banks_kept);
  if (!transposes) return;
  transposed =
      b.declare_psum("transposed", {kPartitions, kPartitions}, banks_to_transpose, options.dtype);
}

// Every call takes the next of the rotating banks, so one sum can be copied out while the next one
// is computed.
Access Context::new_psum(const Slice& partitions, const Slice& columns) const {
  b.allocate(psum);
  return at(psum, {partitions, columns});
}

// The DMA transposes only 2-byte elements, so fp32 goes through the Tensor engine whatever the
// caller asks for.
bool transposes_on_tensor_engine(Layout layout, TransposeBy by, DType dtype) {
  return layout == Layout::kNatural && (by == TransposeBy::kTensorEngine || dtype == DType::kF32);
}

namespace {

// Loads the whole tiles of a block in one transfer, and the remaining rows from the weight itself.
void load_tiles(const Context& c, BufferId block, BufferId w, const Tile& k, const Tile& n) {
  const int64_t tiles = k.size.max / kPartitions, remaining_rows = k.size.max % kPartitions;
  if (tiles > 0) {
    c.b.load(at(block, {all(kPartitions), all(tiles), upto(n)}),
             at(w, {all(kPartitions), tiles_of(k), n}));
  }
  if (remaining_rows == 0) return;
  const Slice rows{k.start + tiles * kPartitions, {.max = remaining_rows}};
  c.b.load(at(block, {all(remaining_rows), one(tiles), upto(n)}),
           at(c.b.buffer(w).view_of, {rows, n}));
}

}  // namespace

bool is_tiled(const Context& c, BufferId w) { return c.b.buffer(w).shape.size() == 3; }

Slice tiles_of(const Tile& k) {
  return {k.index_in(whole(0)) * (k.step / kPartitions), {.max = k.size.max / kPartitions}};
}

void fill_block(const Context& c, BufferId block, BufferId w, const Tile& k, const Tile& n) {
  if (is_tiled(c, w)) return load_tiles(c, block, w, k, n);
  c.b.loop("kt", k, kPartitions, [&](const Tile& kt) {
    c.b.load(at(block, {upto(kt), one(kt.index()), upto(n)}), at(w, {kt, n}));
  });
}

// A block lies in SBUF as tiles of 128 rows one after another, so that the rows of each tile are
// partitions.
BufferId load_block(const Context& c, std::string_view name, BufferId w, const Tile& k,
                    const Tile& n, int64_t copies) {
  const BufferId block =
      c.b.sbuf(name, c.dtype, {kPartitions, ceil_div(k.size.max, kPartitions), n.size.max}, copies);
  fill_block(c, block, w, k, n);
  return block;
}

namespace {

// Loads rows in their natural layout. Each 128 x 128 tile then goes through the Tensor engine into
// PSUM, and from there to its place in the block.
void transpose_on_tensor_engine(const Context& c, BufferId block, BufferId x, const Tile& k,
                                const Tile& m) {
  c.b.loop("mt", m, kPartitions, [&](const Tile& mt) {
    const BufferId rows = c.b.sbuf("x_rows", c.dtype, {kPartitions, k.size.max}, 2);
    c.b.load(at(rows, {upto(mt), upto(k)}), at(x, {mt, k}));
    c.b.loop("kt", k, kPartitions, [&](const Tile& kt) {
      c.b.allocate(c.transposed);
      const Access transposed = at(c.transposed, {upto(kt), upto(mt)});
      c.b.transpose(transposed, at(rows, {upto(mt), kt.in(k)}));
      c.b.copy(at(block, {upto(kt), one(kt.index()), mt.in(m)}), transposed);
    });
  });
}

}  // namespace

// There are three ways to get X^T, and the cheapest is tried first: X^T is already in HBM, the DMA
// transposes X, or the Tensor engine does.
BufferId load_left(const Context& c, std::string_view name, const LeftOperand& x, const Tile& k,
                   const Tile& m, int64_t copies) {
  if (x.layout == Layout::kTransposed) return load_block(c, name, x.buffer, k, m, copies);
  const BufferId block =
      c.b.sbuf(name, c.dtype, {kPartitions, ceil_div(k.size.max, kPartitions), m.size.max}, copies);
  if (transposes_on_tensor_engine(x.layout, x.transpose_by, c.dtype)) {
    transpose_on_tensor_engine(c, block, x.buffer, k, m);
    return block;
  }
  c.b.loop("kt", k, kPartitions, [&](const Tile& kt) {
    c.b.load_transposed(at(block, {upto(kt), one(kt.index()), upto(m)}), at(x.buffer, {m, kt}));
  });
  return block;
}

BlockSum::BlockSum(const Context& c, std::string_view name, DType dtype, const Shape& shape,
                   int64_t copies, int64_t blocks)
    : BlockSum(c, c.b.sbuf(name, dtype, shape, copies),
               blocks == 1 ? InitialValue::kFirstResult : InitialValue::kZero) {}

BlockSum BlockSum::adding_to(const Context& c, BufferId buffer) {
  return {c, buffer, InitialValue::kBufferContent};
}

// Sums start from zero. A single block needs no zeroes, because its results are copied.
void BlockSum::start(std::string_view loop, const Tile& partitions, const Tile& columns) const {
  if (initial_value_ != InitialValue::kZero) return;
  c_.b.loop(loop, partitions, kPartitions, [&](const Tile& tile) {
    c_.b.zero(at(sums_, {upto(tile), one(tile.index()), upto(columns)}));
  });
}

// A copy replaces what the buffer held before. Adding is correct because start() has zeroed the
// buffer or because the sum begins with its contents.
void BlockSum::add(std::initializer_list<Slice> slices, const Access& psum) const {
  if (initial_value_ == InitialValue::kFirstResult) {
    c_.b.copy(at(sums_, slices), psum);
  } else {
    c_.b.add(at(sums_, slices), at(sums_, slices), psum);
  }
}

// If the sums are wider than the output, they are rounded into a separate tile before the store.
void store_rounded(const Context& c, const Access& y, const Access& sums, const Tile& rows,
                   const Tile& columns) {
  if (c.b.dtype(sums.buffer) == c.dtype) return c.b.store(y, sums);
  const BufferId rounded = c.b.sbuf("y_tile", c.dtype, {kPartitions, columns.size.max}, 2);
  c.b.copy(at(rounded, {upto(rows), upto(columns)}), sums);
  c.b.store(y, at(rounded, {upto(rows), upto(columns)}));
}

}  // namespace neuronmm::kernels
