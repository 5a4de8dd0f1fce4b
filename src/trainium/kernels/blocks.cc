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

// A kernel that asks for a parameter which its tiling does not have is an error of the kernel.
int64_t Tiling::operator[](std::string_view name) const {
  constexpr int64_t kAbsent = -1;
  const int64_t value = value_or(name, kAbsent);
  NMM_CHECK(value != kAbsent);
  return value;
}

// A tiling has a handful of parameters; a search through them costs nothing beside a kernel's
// program, and the order of the kernel's description is kept.
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

// A matmul streams up to 512 columns. With a tile that divides the block, none of its matmuls
// streams a short rest.
int64_t moving_tile(int64_t tiles) {
  for (int64_t per_tile = kMovingFree / 128; per_tile > 1; --per_tile) {
    if (tiles % per_tile == 0) return per_tile * 128;
  }
  return 128;
}

// All sums of a kernel rotate through the same banks. Two are set apart where transposes need
// results of another dtype.
Context::Context(tile::Builder& builder, const KernelOptions& options, bool transposes)
    : b(builder), dtype(options.dtype), accumulate(options.accumulate) {
  const int64_t banks_to_transpose = transposes ? 2 : 0;
  psum = b.declare_psum("psum", {kPartitions, kMovingFree}, kPsumBanks - banks_to_transpose);
  if (!transposes) return;
  transposed =
      b.declare_psum("transposed", {kPartitions, kPartitions}, banks_to_transpose, options.dtype);
}

// Every call takes the next of the rotating banks, so that a sum can be drained while the next one
// is made.
Access Context::new_psum(const Slice& partitions, const Slice& columns) const {
  b.allocate(psum);
  return at(psum, {partitions, columns});
}

// The DMA transposes 2-byte elements only, so that fp32 goes through the Tensor engine whatever is
// asked.
bool transposes_on_tensor_engine(Layout layout, TransposeBy by, DType dtype) {
  return layout == Layout::kNatural && (by == TransposeBy::kTensorEngine || dtype == DType::kF32);
}

namespace {

// The tiles of a block that are whole, at once, and what rows are left, from the weight itself.
void load_tiles(const Context& c, BufferId block, BufferId w, const Tile& k, const Tile& n) {
  const int64_t tiles = k.size.max / kPartitions, rest = k.size.max % kPartitions;
  if (tiles > 0) {
    c.b.load(at(block, {all(kPartitions), all(tiles), upto(n)}),
             at(w, {all(kPartitions), tiles_of(k), n}));
  }
  if (rest == 0) return;
  const Slice rows{k.start + tiles * kPartitions, {.max = rest}};
  c.b.load(at(block, {all(rest), one(tiles), upto(n)}), at(c.b.buffer(w).view_of, {rows, n}));
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

// A block of rows and columns lies as tiles of 128 rows behind one another, so that each tile's
// rows are partitions.
BufferId load_block(const Context& c, std::string_view name, BufferId w, const Tile& k,
                    const Tile& n, int64_t copies) {
  const BufferId block =
      c.b.sbuf(name, c.dtype, {kPartitions, ceil_div(k.size.max, kPartitions), n.size.max}, copies);
  fill_block(c, block, w, k, n);
  return block;
}

namespace {

// Rows come as they are, and each 128 x 128 tile goes through the Tensor engine into PSUM and back
// to its place.
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

// Three ways to X^T, from the cheapest: it lies so already, the DMA transposes, the Tensor engine
// does.
BufferId load_left(const Context& c, std::string_view name, const LeftOperand& x, const Tile& k,
                   const Tile& m, int64_t copies) {
  if (x.layout == Layout::kTransposed) return load_block(c, name, x.buffer, k, m, copies);
  const BufferId block =
      c.b.sbuf(name, c.dtype, {kPartitions, ceil_div(k.size.max, kPartitions), m.size.max}, copies);
  if (transposes_on_tensor_engine(x.layout, x.by, c.dtype)) {
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
               blocks == 1 ? Begin::kFirstResult : Begin::kZero) {}

BlockSum BlockSum::onto(const Context& c, BufferId buffer) { return {c, buffer, Begin::kContent}; }

// Sums start from zero, and one block needs no sums: its results are copied.
void BlockSum::start(std::string_view loop, const Tile& partitions, const Tile& columns) const {
  if (begin_ != Begin::kZero) return;
  c_.b.loop(loop, partitions, kPartitions, [&](const Tile& tile) {
    c_.b.zero(at(sums_, {upto(tile), one(tile.index()), upto(columns)}));
  });
}

// The first block must not be added to what the buffer held before: start() has zeroed it.
void BlockSum::add(std::initializer_list<Slice> slices, const Access& psum) const {
  if (begin_ == Begin::kFirstResult) {
    c_.b.copy(at(sums_, slices), psum);
  } else {
    c_.b.add(at(sums_, slices), at(sums_, slices), psum);
  }
}

// The sums may be wider than the output: then they are rounded on the way.
void store_rounded(const Context& c, const Access& y, const Access& sums, const Tile& rows,
                   const Tile& columns) {
  if (c.b.dtype(sums.buffer) == c.dtype) return c.b.store(y, sums);
  const BufferId rounded = c.b.sbuf("y_tile", c.dtype, {kPartitions, columns.size.max}, 2);
  c.b.copy(at(rounded, {upto(rows), upto(columns)}), sums);
  c.b.store(y, at(rounded, {upto(rows), upto(columns)}));
}

}  // namespace neuronmm::kernels
