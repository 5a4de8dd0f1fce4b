#include "trainium/validation/added_kernels.h"

#include "trainium/kernels/blocks.h"
#include "trainium/kernels/matmul.h"
#include "trainium/tile/builder.h"

namespace neuronmm::validation {

namespace {

using kernels::Context;
using kernels::KernelOptions;
using kernels::Layout;
using kernels::load_block;
using kernels::Tiling;
using kernels::TransposeBy;
using kernels::whole;
using tile::Access;
using tile::all;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Program;
using tile::Tile;
using tile::upto;

constexpr KernelOptions kAddedFp32 = {
    .dtype = DType::kF32, .accumulate = DType::kF32, .left = Layout::kNatural};
constexpr KernelOptions kAddedBf16 = {
    .dtype = DType::kBF16, .accumulate = DType::kBF16, .left = Layout::kNatural};

}  // namespace

// The tiles rotate in eight copies, as in the tiled kernel of published_programs.cc.
Program autocomp_gemm_kernel(const GemmStep& step) {
  constexpr int64_t kM = 4096, kK = 8192, kN = 8192, kColumnTiles = 2, kInFlight = 8;
  Builder b("autocomp_gemm");
  const BufferId x = b.input("x", DType::kBF16, {kK, kM}), w = b.input("w", DType::kBF16, {kK, kN});
  const BufferId y = b.output("y", DType::kBF16, {kM, kN});
  const int64_t banks = step.row_tiles * kColumnTiles;
  b.loop("m", kM, 128 * step.row_tiles, [&](const Tile& m) {
    b.loop("n", kN, 512 * kColumnTiles, [&](const Tile& n) {
      const BufferId sums = b.psum("sums", {128, banks * 512}, 8 / banks);
      // Returns the tile [mt, nt] of the block, which has a bank of its own.
      const auto sum = [&](const Tile& mt, const Tile& nt) {
        const tile::Affine bank = mt.index_in(m) * kColumnTiles + nt.index_in(n);
        return at(sums, {upto(mt), {bank * 512, nt.size}});
      };
      b.loop("k", kK, 128, [&](const Tile& k) {
        const BufferId w_tiles = b.sbuf("w_tile", DType::kBF16, {128, n.size.max}, kInFlight);
        b.loop("nl", n, 512 * step.w_tiles, [&](const Tile& nl) {
          b.load(at(w_tiles, {upto(k), nl.in(n)}), at(w, {k, nl}));
        });
        b.loop("ml", m, 128 * step.x_tiles, [&](const Tile& ml) {
          const BufferId x_tiles = b.sbuf("x_tile", DType::kBF16, {128, ml.size.max}, kInFlight);
          b.load(at(x_tiles, {upto(k), upto(ml)}), at(x, {k, ml}));
          b.loop("mt", ml, 128, [&](const Tile& mt) {
            b.loop("nt", n, 512, [&](const Tile& nt) {
              b.matmul(sum(mt, nt), at(x_tiles, {upto(k), mt.in(ml)}),
                       at(w_tiles, {upto(k), nt.in(n)}), {k});
            });
          });
        });
      });
      b.loop("mt", m, 128, [&](const Tile& mt) {
        b.loop("nt", n, 512, [&](const Tile& nt) {
          const BufferId y_tile = b.sbuf("y_tile", DType::kBF16, {128, 512}, kInFlight);
          b.copy(at(y_tile, {upto(mt), upto(nt)}), sum(mt, nt));
          b.store(at(y, {mt, nt}), at(y_tile, {upto(mt), upto(nt)}));
        });
      });
    });
  });
  return b.finish();
}

Program nkibench_bmm_kernel() {
  constexpr int64_t kBatches = 16, kM = 4096, kK = 64, kN = 4096;
  Builder b("nkibench_bmm");
  const BufferId x = b.input("x", DType::kF32, {kBatches * kM, kK});
  const BufferId w = b.input("w", DType::kF32, {kBatches * kK, kN});
  const BufferId y = b.output("y", DType::kF32, {kBatches * kM, kN});
  const BufferId identity = b.input("identity", DType::kF32, {128, 128});
  const Context c(b, kAddedFp32, true);
  const BufferId identity_tile = b.sbuf("identity_tile", c.dtype, {128, 128});
  b.load(at(identity_tile, {all(128), all(128)}), at(identity, {all(128), all(128)}));
  b.loop("batch", kBatches * kK, kK, [&](const Tile& k) {
    b.loop("n", kN, 1024, [&](const Tile& n) {
      const BufferId w_tile = b.sbuf("w_tile", c.dtype, {kK, 1024}, 2);
      b.load(at(w_tile, {upto(k), upto(n)}), at(w, {k, n}));
      b.loop("m", kM, 1024, [&](const Tile& m) {
        const BufferId x_t = b.sbuf("x_t", c.dtype, {kK, 1024}, 2);
        const auto rows = [&](const Tile& mt) {
          return tile::Slice{mt.start + k.index() * kM, mt.size};
        };
        b.loop("mt", m, 128, [&](const Tile& mt) {
          const BufferId x_rows = b.sbuf("x_rows", c.dtype, {128, kK}, 4);
          b.load(at(x_rows, {upto(mt), all(kK)}), at(x, {rows(mt), all(kK)}));
          b.allocate(c.transposed);
          const Access transposed = at(c.transposed, {all(kK), upto(mt)});
          b.transpose(transposed, at(x_rows, {upto(mt), all(kK)}));
          b.copy(at(x_t, {all(kK), mt.in(m)}), transposed);
        });
        b.loop("mt", m, 128, [&](const Tile& mt) {
          const BufferId y_tile = b.sbuf("y_tile", c.dtype, {128, 1024}, 4);
          b.loop("nt", n, 512, [&](const Tile& nt) {
            const Access psum = c.new_psum(upto(mt), upto(nt));
            b.matmul(psum, at(x_t, {all(kK), mt.in(m)}), at(w_tile, {all(kK), nt.in(n)}), {});
            b.copy(at(y_tile, {upto(mt), nt.in(n)}), psum);
          });
          b.store(at(y, {rows(mt), n}), at(y_tile, {upto(mt), upto(n)}));
        });
      });
    });
  });
  return b.finish();
}

// The source divides x by 1 + exp(-x), in four steps. Here a silu and two copies replace the
// exponential, the sum and the reciprocal, which cost as much. A product follows.
Program nkibench_silu_kernel() {
  constexpr int64_t kM = 4096, kN = 7168;
  Builder b("nkibench_silu");
  const BufferId x = b.input("x", DType::kF32, {kM, kN}), y = b.output("y", DType::kF32, {kM, kN});
  b.loop("m", kM, 128, [&](const Tile& m) {
    b.loop("n", kN, 1024, [&](const Tile& n) {
      const BufferId in = b.sbuf("x_tile", DType::kF32, {128, 1024}, 4);
      const BufferId out = b.sbuf("y_tile", DType::kF32, {128, 1024}, 4);
      b.load(at(in, {upto(m), upto(n)}), at(x, {m, n}));
      b.loop("nt", n, 512, [&](const Tile& nt) {
        const auto temporary = [&](std::string_view name) {
          return at(b.sbuf(name, DType::kF32, {128, 512}, 2), {upto(m), upto(nt)});
        };
        const Access exponential = temporary("exponential"), sum = temporary("sum"),
                     factor = temporary("factor");
        b.silu(exponential, at(in, {upto(m), nt.in(n)}));
        b.copy(sum, exponential);
        b.copy(factor, sum);
        b.multiply(at(out, {upto(m), nt.in(n)}), at(in, {upto(m), nt.in(n)}), factor);
      });
      b.store(at(y, {m, n}), at(out, {upto(m), upto(n)}));
    });
  });
  return b.finish();
}

namespace {

constexpr int64_t kSwigluM = 4096, kSwigluK = 1024, kSwigluN = 3072;

struct SwigluOperands {
  BufferId x, w_gate, w_up, w_down, y;
  BufferId x_t, h;  // X^T [K, M] and H^T [N, M], in HBM.
};

// Returns x_t [128, 8, 512] = X^T for the rows m. For the first block of columns it is transposed
// from X and saved; for the other blocks it is read back.
BufferId swiglu_x(const Context& c, const SwigluOperands& o, const Tile& m, bool first) {
  const Tile k = whole(kSwigluK);
  if (!first) return load_block(c, "x_block", o.x_t, k, m, 2);
  const BufferId x_t =
      load_left(c, "x_new", {o.x, Layout::kNatural, TransposeBy::kTensorEngine}, k, m, 2);
  c.b.loop("kt", k, 128, [&](const Tile& kt) {
    c.b.store(at(o.x_t, {kt, m}), at(x_t, {upto(kt), one(kt.index()), upto(m)}));
  });
  return x_t;
}

// Computes H^T for the columns n, which is silu(gate) * up, and stores it tile by tile to HBM.
void swiglu_hidden(const Context& c, const SwigluOperands& o, const Tile& n, bool first) {
  const Tile k = whole(kSwigluK);
  const BufferId gate = load_block(c, "gate_block", o.w_gate, k, n, 1);
  const BufferId up = load_block(c, "up_block", o.w_up, k, n, 1);
  c.b.loop("m", kSwigluM, 512, [&](const Tile& m) {
    const BufferId x_t = swiglu_x(c, o, m, first);
    c.b.loop("nt", n, 128, [&](const Tile& nt) {
      const auto product = [&](BufferId w) {
        const Access psum = c.new_psum(upto(nt), upto(m));
        c.b.loop("kt", k, 128, [&](const Tile& kt) {
          c.b.matmul(psum, at(w, {upto(kt), one(kt.index()), nt.in(n)}),
                     at(x_t, {upto(kt), one(kt.index()), upto(m)}), {kt});
        });
        return psum;
      };
      const auto temporary = [&](std::string_view name) {
        return at(c.b.sbuf(name, c.dtype, {128, 512}, 2), {upto(nt), upto(m)});
      };
      const Access gated = temporary("gated"), exponential = temporary("exponential"),
                   sum = temporary("sum"), factor = temporary("factor"), silu = temporary("silu"),
                   h_tile = temporary("h_tile");
      c.b.copy(gated, product(gate));
      c.b.silu(exponential, gated);  // The steps are those of nkibench_silu.
      c.b.copy(sum, exponential);
      c.b.copy(factor, sum);
      c.b.multiply(silu, gated, factor);
      c.b.multiply(h_tile, silu, product(up));
      c.b.store(at(o.h, {nt, m}), h_tile);
    });
  });
}

void swiglu_down(const Context& c, const SwigluOperands& o) {
  const Tile n = whole(kSwigluN);
  const BufferId down = load_block(c, "down_block", o.w_down, n, whole(kSwigluK), 1);
  c.b.loop("m", kSwigluM, 512, [&](const Tile& m) {
    const BufferId h = load_block(c, "h_block", o.h, n, m, 1);
    c.b.loop("mt", m, 128, [&](const Tile& mt) {
      const BufferId y_tile = c.b.sbuf("y_tile", c.dtype, {128, kSwigluK}, 2);
      c.b.loop("k", kSwigluK, 512, [&](const Tile& k) {
        const Access psum = c.new_psum(upto(mt), upto(k));
        c.b.loop("nt", n, 128, [&](const Tile& nt) {
          c.b.matmul(psum, at(h, {upto(nt), one(nt.index()), mt.in(m)}),
                     at(down, {upto(nt), one(nt.index()), k}), {nt});
        });
        c.b.copy(at(y_tile, {upto(mt), k}), psum);
      });
      c.b.store(at(o.y, {mt, all(kSwigluK)}), at(y_tile, {upto(mt), all(kSwigluK)}));
    });
  });
}

}  // namespace

Program nkibench_swiglu_kernel() {
  constexpr int64_t kBlock = 1024;
  Builder b("nkibench_swiglu");
  const auto in = [&](std::string_view name, int64_t rows, int64_t columns) {
    return b.input(name, DType::kF32, {rows, columns});
  };
  const SwigluOperands o = {.x = in("x", kSwigluM, kSwigluK),
                            .w_gate = in("w_gate", kSwigluK, kSwigluN),
                            .w_up = in("w_up", kSwigluK, kSwigluN),
                            .w_down = in("w_down", kSwigluN, kSwigluK),
                            .y = b.output("y", DType::kF32, {kSwigluM, kSwigluK}),
                            .x_t = b.scratch("x_t", DType::kF32, {kSwigluK, kSwigluM}),
                            .h = b.scratch("h", DType::kF32, {kSwigluN, kSwigluM})};
  const Context c(b, kAddedFp32, true);
  b.loop("n_first", Tile{.start = 0, .size = {.max = kBlock}}, kBlock,
         [&](const Tile& n) { swiglu_hidden(c, o, n, true); });
  b.loop("n", Tile{.start = kBlock, .size = {.max = kSwigluN - kBlock}}, kBlock,
         [&](const Tile& n) { swiglu_hidden(c, o, n, false); });
  swiglu_down(c, o);
  return b.finish();
}

Program autotune_lhs_rhs_kernel() {
  constexpr int64_t kSize = 2048;
  Builder b("autotune_lhs_rhs");
  const BufferId x = b.input("x", DType::kBF16, {kSize, kSize});
  const BufferId w = b.input("w", DType::kBF16, {kSize, kSize});
  const BufferId y = b.output("y", DType::kBF16, {kSize, kSize});
  const Context c(b, kAddedBf16);
  b.loop("m", kSize, 1024, [&](const Tile& m) {
    const BufferId sums = b.sbuf("sums", c.dtype, {128, 8, kSize}, 2);
    b.loop("mt", m, 128, [&](const Tile& mt) {
      b.zero(at(sums, {upto(mt), one(mt.index()), all(kSize)}));
    });
    b.loop("n", kSize, 512, [&](const Tile& n) {
      b.loop("k", kSize, 1024, [&](const Tile& k) {
        const BufferId x_block =
            load_left(c, "x_block", {x, Layout::kNatural, TransposeBy::kDma}, k, m, 2);
        const BufferId w_block = load_block(c, "w_block", w, k, n, 2);
        b.loop("mt", m, 128, [&](const Tile& mt) {
          const Access psum = c.new_psum(upto(mt), upto(n));
          b.loop("kt", k, 128, [&](const Tile& kt) {
            b.matmul(psum, at(x_block, {upto(kt), one(kt.index()), mt.in(m)}),
                     at(w_block, {upto(kt), one(kt.index()), upto(n)}), {kt});
          });
          const BufferId part = b.sbuf("part", c.dtype, {128, 512}, 4);
          b.copy(at(part, {upto(mt), upto(n)}), psum);
          const Access sum = at(sums, {upto(mt), one(mt.index()), n});
          b.add(sum, sum, at(part, {upto(mt), upto(n)}));
        });
      });
      b.loop("mt", m, 128, [&](const Tile& mt) {
        b.store(at(y, {mt, n}), at(sums, {upto(mt), one(mt.index()), n}));
      });
    });
  });
  return b.finish();
}

Program profiled_mlp_kernel() {
  constexpr int64_t kRows = 2048;
  const Tiling tiling({{"BM", 16}, {"BN", 2}, {"BK", 8}});
  Builder b("profiled_mlp");
  const BufferId x = b.input("x", DType::kF32, {kRows, 2048});
  const BufferId w1 = b.input("w1", DType::kF32, {2048, 2048});
  const BufferId w2 = b.input("w2", DType::kF32, {2048, 1024});
  const BufferId w3 = b.input("w3", DType::kF32, {1024, 1024});
  const BufferId y = b.output("y", DType::kF32, {kRows, 1024});
  const BufferId h1 = b.scratch("h1", DType::kF32, {kRows, 2048});
  const BufferId h2 = b.scratch("h2", DType::kF32, {kRows, 1024});
  const Context c(b, kAddedFp32, true);
  const auto layer = [&](BufferId in, BufferId w, BufferId out, int64_t K, int64_t N) {
    optimized_matmul(c, {.M = kRows, .K = K, .r = 0, .N = N}, tiling,
                     {.x = {in, Layout::kNatural}, .w = w, .y = out});
  };
  layer(x, w1, h1, 2048, 2048);
  layer(h1, w2, h2, 2048, 1024);
  layer(h2, w3, y, 1024, 1024);
  return b.finish();
}

namespace {

constexpr DType kDecodeDtype = DType::kBF16;

// Computes sums [128, tiles] = W^T·x for one weight. The columns of W become partitions, so the
// result has the layout that the next product needs.
void decode_up(Builder& b, BufferId w, BufferId x, int64_t k_tiles, int64_t columns, BufferId sums,
               std::string_view block_name) {
  constexpr int64_t kTilesPerLoad = 16;
  b.loop("jb", k_tiles, kTilesPerLoad, [&](const Tile& jb) {
    const BufferId block = b.sbuf(block_name, kDecodeDtype, {128, jb.size.max, columns}, 2);
    b.load(at(block, {all(128), upto(jb), all(columns)}), at(w, {all(128), jb, all(columns)}));
    b.loop("nt", columns, 128, [&](const Tile& nt) {
      const Access sum = at(sums, {upto(nt), one(nt.index()), all(1)});
      b.loop("j", jb, 1, [&](const Tile& j) {
        b.matmul(sum, at(block, {all(128), one(j.index()), nt}), at(x, {all(128), j}), {jb, j});
      });
    });
  });
}

// Computes y [1, hidden] = h^T·Wd by blocks of columns. Every tile of a block is used as soon as it
// is loaded, so little work is left after the last tile.
void decode_down(Builder& b, BufferId w_down, BufferId h, BufferId y, int64_t hidden,
                 int64_t intermediate) {
  constexpr int64_t kBlock = 2048;
  const BufferId y_row = b.sbuf("y_row", kDecodeDtype, {1, hidden});
  b.loop("n", hidden, kBlock, [&](const Tile& n) {
    const BufferId sums = b.psum("y_sums", {1, kBlock}, 1);
    b.loop("kt", intermediate, 128, [&](const Tile& kt) {
      const BufferId w = b.sbuf("down_tile", kDecodeDtype, {128, kBlock}, 16);
      b.load(at(w, {upto(kt), upto(n)}), at(w_down, {kt, n}));
      b.loop("nt", n, 512, [&](const Tile& nt) {
        b.matmul(at(sums, {all(1), nt.in(n)}), at(h, {upto(kt), {kt.index(), {}}}),
                 at(w, {upto(kt), nt.in(n)}), {kt});
      });
    });
    b.loop("nt", n, 512, [&](const Tile& nt) {
      b.copy(at(y_row, {all(1), nt}), at(sums, {all(1), nt.in(n)}));
    });
  });
  b.store(at(y, {all(1), all(hidden)}), at(y_row, {all(1), all(hidden)}));
}

}  // namespace

Program decode_mlp_kernel(int64_t hidden, int64_t intermediate) {
  const int64_t k_tiles = hidden / 128, n_tiles = ceil_div(intermediate, 128);
  Builder b("decode_mlp");
  const BufferId x = b.input("x", kDecodeDtype, {128, k_tiles});
  const BufferId w_gate = b.input("w_gate", kDecodeDtype, {128, k_tiles, intermediate});
  const BufferId w_up = b.input("w_up", kDecodeDtype, {128, k_tiles, intermediate});
  const BufferId w_down = b.input("w_down", kDecodeDtype, {intermediate, hidden});
  const BufferId y = b.output("y", kDecodeDtype, {1, hidden});
  const BufferId x_tile = b.sbuf("x_tile", kDecodeDtype, {128, k_tiles});
  b.load(at(x_tile, {all(128), all(k_tiles)}), at(x, {all(128), all(k_tiles)}));
  const BufferId gate = b.psum("gate", {128, n_tiles, 1}, 1);
  const BufferId up = b.psum("up", {128, n_tiles, 1}, 1);
  decode_up(b, w_gate, x_tile, k_tiles, intermediate, gate, "gate_block");
  decode_up(b, w_up, x_tile, k_tiles, intermediate, up, "up_block");
  const BufferId activated = b.sbuf("activated", DType::kF32, {128, n_tiles});
  const BufferId h = b.sbuf("h", kDecodeDtype, {128, n_tiles});
  b.loop("nt", intermediate, 128, [&](const Tile& nt) {
    const Access silu = at(activated, {upto(nt), one(nt.index())});
    b.silu(silu, at(gate, {upto(nt), one(nt.index()), one(0)}));
    b.multiply(at(h, {upto(nt), one(nt.index())}), silu,
               at(up, {upto(nt), one(nt.index()), one(0)}));
  });
  decode_down(b, w_down, h, y, hidden, intermediate);
  return b.finish();
}

}  // namespace neuronmm::validation
