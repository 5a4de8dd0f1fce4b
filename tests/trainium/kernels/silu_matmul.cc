// [head]
#include "trainium/kernels/blocks.h"
#include "trainium/kernels/description.h"
#include "trainium/tile/builder.h"

namespace neuronmm::kernels {

using tile::Access;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Tile;
using tile::upto;
// [/head]

// [kernel]
// Y [M, N] = silu(X·W) from X^T [K, M] and W [K, N]. A strip of W, K x BN, stays in SBUF while the
// rows of X go by.
tile::Program silu_matmul(const KernelShape& shape, const Tiling& tiling,
                          const KernelOptions& options) {
  Builder b("silu_matmul");
  const BufferId x = b.input("x", options.dtype, {shape.K, shape.M});
  const BufferId w = b.input("w", options.dtype, {shape.K, shape.N});
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.N});
  const Context c(b, options);
  const Tile k = whole(shape.K);
  b.loop("n", shape.N, block_step(tiling, "BN", 512), [&](const Tile& n) {
    const BufferId w_strip = load_block(c, "w_strip", w, k, n, 1);
    b.loop("m", shape.M, 128, [&](const Tile& m) {
      const BufferId x_strip = load_block(c, "x_strip", x, k, m, 2);
      b.loop("nt", n, 512, [&](const Tile& nt) {
        const Access sums = c.new_psum(upto(m), upto(nt));
        b.loop("kt", k, 128, [&](const Tile& kt) {
          b.matmul(sums, at(x_strip, {upto(kt), one(kt.index()), upto(m)}),
                   at(w_strip, {upto(kt), one(kt.index()), nt.in(n)}), {kt});
        });
        const Access y_tile = at(b.sbuf("y_tile", c.dtype, {128, 512}, 2), {upto(m), upto(nt)});
        b.silu(y_tile, sums);
        b.store(at(y, {m, nt}), y_tile);
      });
    });
  });
  return b.finish();
}
// [/kernel]

// [cost]
Cost silu_matmul_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const int64_t s = dtype_size_bytes(options.dtype);
  const int64_t column_blocks = ceil_div(p.N, tiling["BN"] * 512);
  return {.hbm_read_bytes = s * (p.M * p.K * column_blocks + p.K * p.N),
          .hbm_write_bytes = s * p.M * p.N,
          .flops = 2 * p.M * p.K * p.N,
          .nc_matmuls = ceil_div(p.M, 128) * ceil_div(p.K, 128) * ceil_div(p.N, 512)};
}
// [/cost]

// [entry]
std::vector<Kernel> silu_matmul_kernels() {
  using tile::HbmRole;
  const Formula sums = product(operand("x"), "w", "", Formula::StoredAs::kPsum);
  return {{.name = "silu_matmul",
           .description = "Y = silu(X·W), a strip of W in SBUF",
           .formula = silu(sums),
           .operands = {{.name = "x", .layout = {'K', 'M'}, .role = HbmRole::kInput},
                        {.name = "w", .layout = {'K', 'N'}, .role = HbmRole::kInput},
                        {.name = "y", .layout = {'M', 'N'}, .role = HbmRole::kOutput}},
           .tiling = {{.name = "BN",
                       .value = 2,
                       .meaning = "column tiles of 512 in a strip of W",
                       .dimension = 'N',
                       .tile = 512}},
           .hbm_bytes = "s·(M·K·⌈N/BN⌉ + K·N + M·N)",
           .flops = "2·M·K·N",
           .nc_matmuls = "⌈M/128⌉·⌈K/128⌉·⌈N/512⌉",
           .make = silu_matmul,
           .cost = silu_matmul_cost}};
}
// [/entry]

}  // namespace neuronmm::kernels
