#include "trainium/validation/published_kernels.h"

#include <algorithm>

#include "trainium/kernels/blocks.h"
#include "trainium/tile/builder.h"

namespace neuronmm::validation {

namespace {

using kernels::Context;
using kernels::KernelOptions;
using kernels::Layout;
using kernels::load_block;
using kernels::whole;
using tile::Access;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::one;
using tile::Program;
using tile::Tile;
using tile::upto;

constexpr KernelOptions kFp32 = {
    .dtype = DType::kF32, .accumulate = DType::kF32, .left = Layout::kTransposed};
constexpr KernelOptions kBf16 = {
    .dtype = DType::kBF16, .accumulate = DType::kBF16, .left = Layout::kTransposed};

// Loads the identity that PE transposes multiply with, which is 64 KiB in fp32.
void load_identity(const Context& c) {
  const BufferId identity = c.b.input("identity", c.dtype, {128, 128});
  const BufferId tile = c.b.sbuf("identity_tile", c.dtype, {128, 128});
  c.b.load(at(tile, {tile::all(128), tile::all(128)}),
           at(identity, {tile::all(128), tile::all(128)}));
}

// Computes x_t [128, k tiles, rows], the transposed rows [m, k] of x, on the Tensor engine.
void load_and_transpose(const Context& c, BufferId x_t, BufferId x, const Tile& m, const Tile& k,
                        int64_t k_block) {
  c.b.loop("mt", m, 128, [&](const Tile& mt) {
    c.b.loop("kb", k, k_block, [&](const Tile& kb) {
      const BufferId rows = c.b.sbuf("x_rows", c.dtype, {128, k_block}, 2);
      c.b.load(at(rows, {upto(mt), upto(kb)}), at(x, {mt, kb}));
      c.b.loop("kt", kb, 128, [&](const Tile& kt) {
        const Access transposed = c.new_psum(upto(kt), upto(mt));
        c.b.transpose(transposed, at(rows, {upto(mt), kt.in(kb)}));
        c.b.copy(at(x_t, {upto(kt), one(kt.index_in(k)), mt.in(m)}), transposed);
      });
    });
  });
}

}  // namespace

Program nkibench_matmul_kernel() {
  constexpr int64_t kM = 4096, kK = 5120, kN = 12288;
  Builder b("nkibench_matmul");
  const BufferId x = b.input("x", DType::kF32, {kM, kK}), w = b.input("w", DType::kF32, {kK, kN});
  const BufferId y = b.output("y", DType::kF32, {kM, kN});
  const Context c(b, kFp32);
  // X is natural, and the published source transposes it on the Tensor engine with an identity.
  load_identity(c);
  const Tile k = whole(kK);
  b.loop("n", kN, 1024, [&](const Tile& n) {
    const BufferId w_strip = load_block(c, "w_strip", w, k, n, 1);
    b.loop("m", kM, 128, [&](const Tile& m) {
      const BufferId x_t = b.sbuf("x_t", DType::kF32, {128, kK / 128, 128}, 2);
      load_and_transpose(c, x_t, x, m, k, 1024);
      const BufferId y_tile = b.sbuf("y_tile", DType::kF32, {128, 1024}, 2);
      b.loop("nt", n, 512, [&](const Tile& nt) {
        const Access psum = c.new_psum(upto(m), upto(nt));
        b.loop("kt", k, 128, [&](const Tile& kt) {
          b.matmul(psum, at(x_t, {upto(kt), one(kt.index()), upto(m)}),
                   at(w_strip, {upto(kt), one(kt.index()), nt.in(n)}), {kt});
        });
        b.copy(at(y_tile, {upto(m), nt.in(n)}), psum);
      });
      b.store(at(y, {m, n}), at(y_tile, {upto(m), upto(n)}));
    });
  });
  return b.finish();
}

Program nkibench_transpose_matmul_kernel() {
  constexpr int64_t kM = 4096, kK = 2048, kN = 10944;
  Builder b("nkibench_transpose_matmul");
  const BufferId x = b.input("x", DType::kF32, {kK, kM}), w = b.input("w", DType::kF32, {kK, kN});
  const BufferId y = b.output("y", DType::kF32, {kM, kN});
  const Context c(b, kFp32);
  const Tile k = whole(kK);
  b.loop("m", kM, 1024, [&](const Tile& m) {
    // X^T is in HBM, so nothing is transposed on the chip.
    const BufferId x_block = load_block(c, "x_block", x, k, m, 1);
    b.loop("n", kN, 1024, [&](const Tile& n) {
      const BufferId w_block = load_block(c, "w_block", w, k, n, 2);
      b.loop("mt", m, 128, [&](const Tile& mt) {
        const BufferId y_tile = b.sbuf("y_tile", DType::kF32, {128, 1024}, 2);
        b.loop("nt", n, 512, [&](const Tile& nt) {
          const Access psum = c.new_psum(upto(mt), upto(nt));
          b.loop("kt", k, 128, [&](const Tile& kt) {
            b.matmul(psum, at(x_block, {upto(kt), one(kt.index()), mt.in(m)}),
                     at(w_block, {upto(kt), one(kt.index()), nt.in(n)}), {kt});
          });
          b.copy(at(y_tile, {upto(mt), nt.in(n)}), psum);
        });
        b.store(at(y, {mt, n}), at(y_tile, {upto(mt), upto(n)}));
      });
    });
  });
  return b.finish();
}

namespace {

constexpr int64_t kLoraM = 4096, kLoraK = 5120, kLoraN = 12288, kLoraRank = 128;

struct LoraOperands {
  BufferId x, w, a, b, y;
  BufferId x_t;       // The layout is [K, M], in HBM.
  BufferId low_rank;  // The matrix (X·A·B)^T [N, M], in HBM.
};

// Computes x_t = X^T and low_rank = (X·A·B)^T and stores both to HBM, because the profile shows
// that the compiler spills them between the stages.
void lora_low_rank(const Context& c, const LoraOperands& o) {
  Builder& b = c.b;
  const Tile k = whole(kLoraK), rank = whole(kLoraRank);
  const BufferId a_strip = load_block(c, "a_strip", o.a, k, rank, 1);
  b.loop("m", kLoraM, 512, [&](const Tile& m) {
    const BufferId x_t = b.sbuf("x_t_block", c.dtype, {128, kLoraK / 128, 512}, 1);
    load_and_transpose(c, x_t, o.x, m, k, 1024);
    const BufferId xa = b.sbuf("xa", c.dtype, {128, 512}, 2);
    const Access psum = c.new_psum(upto(rank), upto(m));
    b.loop("kt", k, 128, [&](const Tile& kt) {
      b.store(at(o.x_t, {kt, m}), at(x_t, {upto(kt), one(kt.index()), upto(m)}));
      b.matmul(psum, at(a_strip, {upto(kt), one(kt.index()), upto(rank)}),
               at(x_t, {upto(kt), one(kt.index()), upto(m)}), {kt});
    });
    b.copy(at(xa, {upto(rank), upto(m)}), psum);
    b.loop("n", kLoraN, 1024, [&](const Tile& n) {
      const BufferId b_tile = b.sbuf("b_tile", c.dtype, {128, 1024}, 2);
      b.load(at(b_tile, {upto(rank), upto(n)}), at(o.b, {rank, n}));
      b.loop("nt", n, 128, [&](const Tile& nt) {
        const Access product = c.new_psum(upto(nt), upto(m));
        b.matmul(product, at(b_tile, {upto(rank), nt.in(n)}), at(xa, {upto(rank), upto(m)}), {});
        const BufferId tile = b.sbuf("low_rank_tile", c.dtype, {128, 512}, 4);
        b.copy(at(tile, {upto(nt), upto(m)}), product);
        b.store(at(o.low_rank, {nt, m}), at(tile, {upto(nt), upto(m)}));
      });
    });
  });
}

// Computes y [m, nt], the transposed sums plus the low-rank part, which is transposed back on the
// Tensor engine.
void lora_store(const Context& c, const LoraOperands& o, BufferId sums, const Tile& n) {
  Builder& b = c.b;
  b.loop("m", kLoraM, 512, [&](const Tile& m) {
    b.loop("nt", n, 128, [&](const Tile& nt) {
      const BufferId tile = b.sbuf("low_rank_in", c.dtype, {128, 512}, 4);
      b.load(at(tile, {upto(nt), upto(m)}), at(o.low_rank, {nt, m}));
      const BufferId total = b.sbuf("total", c.dtype, {128, 512}, 2);
      b.add(at(total, {upto(nt), upto(m)}), at(sums, {upto(nt), one(nt.index()), m}),
            at(tile, {upto(nt), upto(m)}));
      b.loop("mt", m, 128, [&](const Tile& mt) {
        const Access psum = c.new_psum(upto(mt), upto(nt));
        b.transpose(psum, at(total, {upto(nt), mt.in(m)}));
        const BufferId y_tile = b.sbuf("y_tile", c.dtype, {128, 128}, 8);
        b.copy(at(y_tile, {upto(mt), upto(nt)}), psum);
        b.store(at(o.y, {mt, nt}), at(y_tile, {upto(mt), upto(nt)}));
      });
    });
  });
}

}  // namespace

Program nkibench_lora_kernel() {
  Builder b("nkibench_lora");
  const LoraOperands o = {.x = b.input("x", DType::kF32, {kLoraM, kLoraK}),
                          .w = b.input("w", DType::kF32, {kLoraK, kLoraN}),
                          .a = b.input("a", DType::kF32, {kLoraK, kLoraRank}),
                          .b = b.input("b", DType::kF32, {kLoraRank, kLoraN}),
                          .y = b.output("y", DType::kF32, {kLoraM, kLoraN}),
                          .x_t = b.scratch("x_t", DType::kF32, {kLoraK, kLoraM}),
                          .low_rank = b.scratch("low_rank", DType::kF32, {kLoraN, kLoraM})};
  const Context c(b, kFp32);
  load_identity(c);
  lora_low_rank(c, o);
  b.loop("n", kLoraN, 1024, [&](const Tile& n) {
    const BufferId sums = b.sbuf("sums", DType::kF32, {128, 8, kLoraM}, 1);
    b.loop("nt", n, 128, [&](const Tile& nt) {
      b.zero(at(sums, {upto(nt), one(nt.index()), tile::all(kLoraM)}));
    });
    const auto k_block = [&](const Tile& k) {
      const BufferId w_block = load_block(c, "w_block", o.w, k, n, 1);
      b.loop("m2", kLoraM, 2048, [&](const Tile& m2) {
        b.loop("m", m2, 512, [&](const Tile& m) {
          const BufferId x_block = load_block(c, "x_block", o.x_t, k, m, 2);
          b.loop("nt", n, 128, [&](const Tile& nt) {
            const Access psum = c.new_psum(upto(nt), upto(m));
            b.loop("kt", k, 128, [&](const Tile& kt) {
              b.matmul(psum, at(w_block, {upto(kt), one(kt.index()), nt.in(n)}),
                       at(x_block, {upto(kt), one(kt.index()), upto(m)}), {kt});
            });
            const Access sum = at(sums, {upto(nt), one(nt.index()), m});
            b.add(sum, sum, psum);
          });
        });
      });
    };
    b.loop("k", kLoraK, 1280, k_block, Builder::Iterations::kCarried);
    lora_store(c, o, sums, n);
  });
  return b.finish();
}

namespace {

constexpr int64_t kLadder = 2048;

struct LadderOperands {
  BufferId x, w, y;
  explicit LadderOperands(Builder& b)
      : x(b.input("x", DType::kBF16, {kLadder, kLadder})),
        w(b.input("w", DType::kBF16, {kLadder, kLadder})),
        y(b.output("y", DType::kBF16, {kLadder, kLadder})) {}
};

// Makes a program that keeps both operands in SBUF. Each row tile has one accumulator of four
// banks, which is zeroed and copied out as a whole. With a single accumulator the next row tile
// waits until it is copied out.
Program ladder_resident(std::string_view name, int64_t accumulators) {
  Builder b(name);
  const LadderOperands o(b);
  const Tile all = whole(kLadder);
  const Context c(b, kBf16);
  const BufferId x = load_block(c, "x_all", o.x, all, all, 1);
  const BufferId w = load_block(c, "w_all", o.w, all, all, 1);
  b.loop("m", kLadder, 128, [&](const Tile& m) {
    const BufferId sums = b.psum("sums", {128, kLadder}, accumulators);
    b.zero(at(sums, {upto(m), upto(all)}));
    b.loop("n", kLadder, 512, [&](const Tile& n) {
      b.loop("k", kLadder, 128, [&](const Tile& k) {
        b.matmul(at(sums, {upto(m), n}), at(x, {upto(k), one(k.index()), m}),
                 at(w, {upto(k), one(k.index()), n}), {k});
      });
    });
    const BufferId y_tile = b.sbuf("y_tile", DType::kBF16, {128, kLadder}, 2);
    b.copy(at(y_tile, {upto(m), upto(all)}), at(sums, {upto(m), upto(all)}));
    b.store(at(o.y, {m, all}), at(y_tile, {upto(m), upto(all)}));
  });
  return b.finish();
}

}  // namespace

Program ladder_inner_loads_kernel() {
  Builder b("ladder_inner_loads");
  const LadderOperands o(b);
  b.loop("m", kLadder, 128, [&](const Tile& m) {
    b.loop("n", kLadder, 512, [&](const Tile& n) {
      const BufferId sums = b.psum("sums", {128, 512}, 1);
      b.loop("k", kLadder, 128, [&](const Tile& k) {
        // An operand has only one buffer, as in the source, so a load waits for the previous
        // matmul.
        const BufferId x = b.sbuf("x_tile", DType::kBF16, {128, 128}, 1);
        const BufferId w = b.sbuf("w_tile", DType::kBF16, {128, 512}, 1);
        b.load(at(x, {upto(k), upto(m)}), at(o.x, {k, m}));
        b.load(at(w, {upto(k), upto(n)}), at(o.w, {k, n}));
        b.matmul(at(sums, {upto(m), upto(n)}), at(x, {upto(k), upto(m)}), at(w, {upto(k), upto(n)}),
                 {k});
      });
      const BufferId y_tile = b.sbuf("y_tile", DType::kBF16, {128, 512}, 1);
      b.copy(at(y_tile, {upto(m), upto(n)}), at(sums, {upto(m), upto(n)}));
      b.store(at(o.y, {m, n}), at(y_tile, {upto(m), upto(n)}));
    });
  });
  return b.finish();
}

Program ladder_hoisted_kernel() { return ladder_resident("ladder_hoisted", 1); }
Program ladder_double_psum_kernel() { return ladder_resident("ladder_double_psum", 2); }

Program ladder_streaming_kernel() {
  Builder b("ladder_streaming");
  const LadderOperands o(b);
  const Context c(b, kBf16);
  // Blocks of both operands are loaded ahead of their use, in two copies.
  const Tile k = whole(kLadder);
  b.loop("n", kLadder, 512, [&](const Tile& n) {
    const BufferId w_block = load_block(c, "w_block", o.w, k, n, 2);
    b.loop("m", kLadder, 512, [&](const Tile& m) {
      const BufferId x_block = load_block(c, "x_block", o.x, k, m, 2);
      b.loop("mt", m, 128, [&](const Tile& mt) {
        const Access psum = c.new_psum(upto(mt), upto(n));
        b.loop("kt", k, 128, [&](const Tile& kt) {
          b.matmul(psum, at(x_block, {upto(kt), one(kt.index()), mt.in(m)}),
                   at(w_block, {upto(kt), one(kt.index()), upto(n)}), {kt});
        });
        const BufferId y_tile = b.sbuf("y_tile", DType::kBF16, {128, 512}, 2);
        b.copy(at(y_tile, {upto(mt), upto(n)}), psum);
        b.store(at(o.y, {mt, n}), at(y_tile, {upto(mt), upto(n)}));
      });
    });
  });
  return b.finish();
}

Program ladder_two_stage_kernel() {
  Builder b("ladder_two_stage");
  const LadderOperands o(b);
  const Context c(b, kBf16);
  // K has two blocks. The sums of the first are kept in SBUF, in bf16, until the second is added.
  b.loop("n", kLadder, 512, [&](const Tile& n) {
    const BufferId sums = b.sbuf("sums", DType::kBF16, {128, 16, 512}, 4);
    b.loop("m", kLadder, 128, [&](const Tile& m) {
      b.zero(at(sums, {upto(m), one(m.index()), upto(n)}));
    });
    b.loop("k", kLadder, 1024, [&](const Tile& k) {
      const BufferId w_block = load_block(c, "w_block", o.w, k, n, 2);
      b.loop("m", kLadder, 512, [&](const Tile& m) {
        const BufferId x_block = load_block(c, "x_block", o.x, k, m, 4);
        b.loop("mt", m, 128, [&](const Tile& mt) {
          const Access psum = c.new_psum(upto(mt), upto(n));
          b.loop("kt", k, 128, [&](const Tile& kt) {
            b.matmul(psum, at(x_block, {upto(kt), one(kt.index()), mt.in(m)}),
                     at(w_block, {upto(kt), one(kt.index()), upto(n)}), {kt});
          });
          const BufferId part = b.sbuf("part", DType::kBF16, {128, 512}, 4);
          b.copy(at(part, {upto(mt), upto(n)}), psum);
          const Access sum = at(sums, {upto(mt), one(mt.index_in(whole(kLadder))), upto(n)});
          b.add(sum, sum, at(part, {upto(mt), upto(n)}));
        });
      });
    });
    b.loop("m", kLadder, 128, [&](const Tile& m) {
      b.store(at(o.y, {m, n}), at(sums, {upto(m), one(m.index()), upto(n)}));
    });
  });
  return b.finish();
}

Program with_copies(Program program, std::initializer_list<std::string_view> buffers,
                    int64_t copies) {
  for (tile::Buffer& buffer : program.buffers) {
    if (std::find(buffers.begin(), buffers.end(), buffer.name) != buffers.end()) {
      buffer.copies = copies;
    }
  }
  return program;
}

}  // namespace neuronmm::validation
