#include "trainium/kernels/matmul.h"

namespace neuronmm::kernels {

using tile::Access;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Program;
using tile::Step;
using tile::Tile;
using tile::upto;

namespace {

// Declares the operands. X is natural or already transposed, as the Tensor engine needs it.
MatmulOperands declare_operands(Builder& b, const KernelShape& shape,
                                const KernelOptions& options) {
  const bool natural = options.left == Layout::kNatural;
  const Shape x = natural ? Shape{shape.M, shape.K} : Shape{shape.K, shape.M};
  return {.x = {b.input("x", options.dtype, x), options.left},
          .w = b.input("w", options.dtype, {shape.K, shape.N}),
          .y = b.output("y", options.dtype, {shape.M, shape.N})};
}

// Returns true if the kernel transposes X. Plain matmuls transpose a natural X on the Tensor
// engine, as the published kernels do.
bool transposes(const KernelOptions& options) {
  return transposes_on_tensor_engine(options.left, TransposeBy::kTensorEngine, options.dtype);
}

// Computes psum [mt, nt] as the contraction over the k tiles of two blocks in SBUF.
Access multiply_tiles(const Context& c, BufferId x_block, BufferId w_block, const Tile& k,
                      const Tile& m, const Tile& mt, const Tile& n, const Tile& nt) {
  const Access psum = c.new_psum(upto(mt), upto(nt));
  c.b.loop("kt", k, kPartitions, [&](const Tile& kt) {
    c.b.matmul(psum, at(x_block, {upto(kt), one(kt.index()), mt.in(m)}),
               at(w_block, {upto(kt), one(kt.index()), nt.in(n)}), {kt});
  });
  return psum;
}

// Computes and stores the tiles of an output block whose whole contraction is in SBUF.
void store_block(const Context& c, BufferId y, BufferId x_strip, BufferId w_strip, const Tile& k,
                 const Tile& m, const Tile& n) {
  c.b.loop("mt", m, kStationaryFree, [&](const Tile& mt) {
    c.b.loop("nt", n, kMovingFree, [&](const Tile& nt) {
      const Access psum = multiply_tiles(c, x_strip, w_strip, k, m, mt, n, nt);
      const BufferId y_tile = c.b.sbuf("y_tile", c.dtype, {kStationaryFree, nt.size.max}, 2);
      c.b.copy(at(y_tile, {upto(mt), upto(nt)}), psum);
      c.b.store(at(y, {mt, nt}), at(y_tile, {upto(mt), upto(nt)}));
    });
  });
}

// Keeps a strip of X with all of K in SBUF while strips of W are loaded one after another. The
// tutorial's second and third kernels differ only in the sizes of their blocks.
Program blocked(std::string_view name, const KernelShape& shape, const Step& rows,
                const Step& columns, const KernelOptions& options) {
  Builder b(name);
  const MatmulOperands operands = declare_operands(b, shape, options);
  const Context c(b, options, transposes(options));
  const Tile k = whole(shape.K);
  b.loop("m", shape.M, rows, [&](const Tile& m) {
    const BufferId x_strip = load_left(c, "x_strip", operands.x, k, m, 1);
    b.loop("n", shape.N, columns, [&](const Tile& n) {
      const BufferId w_strip = load_block(c, "w_strip", operands.w, k, n, 1);
      store_block(c, operands.y, x_strip, w_strip, k, m, n);
    });
  });
  return b.finish();
}

}  // namespace

// The tutorial's first kernel loads both tiles for every matmul.
Program matmul_tiled(const KernelShape& shape, const Tiling&, const KernelOptions& options) {
  Builder b("matmul_tiled");
  const MatmulOperands operands = declare_operands(b, shape, options);
  const Context c(b, options, transposes(options));
  b.loop("m", shape.M, kStationaryFree, [&](const Tile& m) {
    b.loop("n", shape.N, kMovingFree, [&](const Tile& n) {
      const Access sums = at(b.psum("sums", {kStationaryFree, kMovingFree}, 2), {upto(m), upto(n)});
      b.loop("k", shape.K, kPartitions, [&](const Tile& k) {
        const BufferId x_tile = load_left(c, "x_tile", operands.x, k, m, 2);
        const BufferId w_tile = load_block(c, "w_tile", operands.w, k, n, 2);
        b.matmul(sums, at(x_tile, {upto(k), one(0), upto(m)}),
                 at(w_tile, {upto(k), one(0), upto(n)}), {k});
      });
      const BufferId y_tile = b.sbuf("y_tile", c.dtype, {kStationaryFree, n.size.max}, 2);
      b.copy(at(y_tile, {upto(m), upto(n)}), sums);
      b.store(at(operands.y, {m, n}), at(y_tile, {upto(m), upto(n)}));
    });
  });
  return b.finish();
}

Program matmul_hoisted(const KernelShape& shape, const Tiling&, const KernelOptions& options) {
  return blocked("matmul_hoisted", shape, kStationaryFree, kMovingFree, options);
}

Program matmul_blocked(const KernelShape& shape, const Tiling& tiling,
                       const KernelOptions& options) {
  return blocked("matmul_blocked", shape, block_step(tiling, "BM", kStationaryFree),
                 block_step(tiling, "BN", kMovingFree), options);
}

// The tutorial's last kernel has blocks in all three dimensions. Columns are the outermost loop and
// K the next, so W is read once, and the sums of all rows stay in SBUF meanwhile.
void optimized_matmul(const Context& c, const KernelShape& shape, const Tiling& tiling,
                      const MatmulOperands& operands) {
  const int64_t M = shape.M, K = shape.K, N = shape.N;
  const Step BM = block_step(tiling, "BM", 128), BK = block_step(tiling, "BK", 128),
             BN = block_step(tiling, "BN", 512);
  Builder& b = c.b;
  const int64_t blocks = ceil_div(K, BK);
  const Tile rows = whole(M);
  b.loop("n", N, BN, [&](const Tile& n) {
    const BlockSum sums(c, "sums", BlockSum::dtype_for(c, blocks),
                        {kPartitions, ceil_div(M, 128), n.size.max}, 1, blocks);
    sums.start("m", rows, n);
    const auto k_block = [&](const Tile& k) {
      const BufferId w_block = load_block(c, "w_block", operands.w, k, n, 2);
      b.loop("m", rows, BM, [&](const Tile& m) {
        const BufferId x_block = load_left(c, "x_block", operands.x, k, m, 2);
        b.loop("nt", n, 512, [&](const Tile& nt) {
          b.loop("mt", m, 128, [&](const Tile& mt) {
            const Access psum = multiply_tiles(c, x_block, w_block, k, m, mt, n, nt);
            sums.add({upto(mt), one(mt.index_in(rows)), nt.in(n)}, psum);
          });
        });
      });
    };
    b.loop("k", K, BK, k_block, Builder::Iterations::kCarried);
    b.loop("m", rows, 128, [&](const Tile& mt) {
      store_rounded(c, at(operands.y, {mt, n}), sums({upto(mt), one(mt.index_in(rows)), upto(n)}),
                    mt, n);
    });
  });
}

Program matmul_optimized(const KernelShape& shape, const Tiling& tiling,
                         const KernelOptions& options) {
  Builder b("matmul_optimized");
  const MatmulOperands operands = declare_operands(b, shape, options);
  optimized_matmul(Context(b, options, transposes(options)), shape, tiling, operands);
  return b.finish();
}

// The loop over rows is outside the loop over K. Only the sums of one block of rows exist at a
// time, which need less SBUF, and W is read once per block of rows.
Program matmul_fixed_order(const KernelShape& shape, const Tiling& tiling,
                           const KernelOptions& options) {
  const int64_t M = shape.M, K = shape.K, N = shape.N;
  const Step BM = block_step(tiling, "BM", 128), BK = block_step(tiling, "BK", 128),
             BN = block_step(tiling, "BN", 512);
  Builder b("matmul_fixed_order");
  const MatmulOperands operands = declare_operands(b, shape, options);
  const Context c(b, options, transposes(options));
  const int64_t blocks = ceil_div(K, BK);
  b.loop("n", N, BN, [&](const Tile& n) {
    b.loop("m", M, BM, [&](const Tile& m) {
      const BlockSum sums(c, "sums", BlockSum::dtype_for(c, blocks),
                          {kPartitions, ceil_div(m.size.max, 128), n.size.max}, 1, blocks);
      sums.start("mt", m, n);
      const auto k_block = [&](const Tile& k) {
        const BufferId w_block = load_block(c, "w_block", operands.w, k, n, 2);
        const BufferId x_block = load_left(c, "x_block", operands.x, k, m, 2);
        b.loop("nt", n, 512, [&](const Tile& nt) {
          b.loop("mt", m, 128, [&](const Tile& mt) {
            const Access psum = multiply_tiles(c, x_block, w_block, k, m, mt, n, nt);
            sums.add({upto(mt), one(mt.index()), nt.in(n)}, psum);
          });
        });
      };
      b.loop("k", K, BK, k_block, Builder::Iterations::kCarried);
      b.loop("mt", m, 128, [&](const Tile& mt) {
        store_rounded(c, at(operands.y, {mt, n}), sums({upto(mt), one(mt.index()), upto(n)}), mt,
                      n);
      });
    });
  });
  return b.finish();
}

namespace {

using tile::HbmRole;

// The description has X transposed. With --left natural its dimensions are swapped (layout_of).
std::vector<OperandDescription> matmul_operands() {
  return {{.name = "x", .layout = {'K', 'M'}, .role = HbmRole::kInput},
          {.name = "w", .layout = {'K', 'N'}, .role = HbmRole::kInput},
          {.name = "y", .layout = {'M', 'N'}, .role = HbmRole::kOutput}};
}

constexpr std::string_view kFlops = "2·M·K·N";
constexpr std::string_view kMatmuls = "⌈M/128⌉·⌈K/128⌉·⌈N/512⌉";

}  // namespace

// The published baselines use BM 8.
std::vector<TilingParameter> matmul_tiling() {
  return {{.name = "BM",
           .value = 16,
           .meaning = "row tiles of 128 in a block of X",
           .dimension = 'M',
           .tile = 128},
          {.name = "BK",
           .value = 8,
           .meaning = "contraction tiles of 128 in a block",
           .dimension = 'K',
           .tile = 128},
          {.name = "BN",
           .value = 2,
           .meaning = "column tiles of 512 in a block of W",
           .dimension = 'N',
           .tile = 512}};
}

namespace {

// The kernels whose strips hold the whole contraction.
std::vector<Kernel> strip_kernels() {
  return {{.name = "matmul_tiled",
           .description = "Y = X·W, both operand tiles loaded for every multiplication",
           .formula = product(operand("x"), "w"),
           .operands = matmul_operands(),
           .left_layout = true,
           .hbm_bytes = "s·(M·K·⌈N/512⌉ + K·N·⌈M/128⌉ + M·N)",
           .flops = kFlops,
           .nc_matmuls = kMatmuls,
           .make = matmul_tiled,
           .cost = matmul_tiled_cost},
          {.name = "matmul_hoisted",
           .description = "Y = X·W, strips of X and W loaded ahead of the contraction",
           .formula = product(operand("x"), "w"),
           .operands = matmul_operands(),
           .left_layout = true,
           .hbm_bytes = "s·(M·K + K·N·⌈M/128⌉ + M·N)",
           .flops = kFlops,
           .nc_matmuls = kMatmuls,
           .make = matmul_hoisted,
           .cost = matmul_hoisted_cost},
          {.name = "matmul_blocked",
           .description = "Y = X·W, strips for blocks of BM x BN output tiles",
           .formula = product(operand("x"), "w"),
           .operands = matmul_operands(),
           .left_layout = true,
           .tiling = {{.name = "BM",
                       .value = 2,
                       .meaning = "row tiles of 128 in an output block",
                       .dimension = 'M',
                       .tile = 128},
                      {.name = "BN",
                       .value = 2,
                       .meaning = "column tiles of 512 in an output block",
                       .dimension = 'N',
                       .tile = 512}},
           .hbm_bytes = "s·(M·K + K·N·⌈M/BM⌉ + M·N)",
           .flops = kFlops,
           .nc_matmuls = kMatmuls,
           .make = matmul_blocked,
           .cost = matmul_blocked_cost}};
}

// The kernels that divide the contraction into blocks.
std::vector<Kernel> block_kernels() {
  return {{.name = "matmul_optimized",
           .description = "Y = X·W, blocked in all dimensions; sums of all rows stay in SBUF",
           .formula = product(operand("x"), "w", "BK"),
           .operands = matmul_operands(),
           .left_layout = true,
           .tiling = matmul_tiling(),
           .hbm_bytes = "s·(M·K·⌈N/BN⌉ + K·N + M·N)",
           .flops = kFlops,
           .nc_matmuls = kMatmuls,
           .make = matmul_optimized,
           .cost = matmul_optimized_cost},
          {.name = "matmul_fixed_order",
           .description = "Y = X·W, blocked in all dimensions; sums of one output block in SBUF",
           .formula = product(operand("x"), "w", "BK"),
           .operands = matmul_operands(),
           .left_layout = true,
           .tiling = matmul_tiling(),
           .hbm_bytes = "s·(M·K·⌈N/BN⌉ + K·N·⌈M/BM⌉ + M·N)",
           .flops = kFlops,
           .nc_matmuls = kMatmuls,
           .make = matmul_fixed_order,
           .cost = matmul_fixed_order_cost}};
}

}  // namespace

std::vector<Kernel> matmul_kernels() {
  std::vector<Kernel> all = strip_kernels();
  for (Kernel& kernel : block_kernels()) all.push_back(std::move(kernel));
  return all;
}

}  // namespace neuronmm::kernels
