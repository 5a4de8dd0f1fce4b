#include "trainium/kernels/few_rows.h"

#include <algorithm>

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
using Iterations = tile::Builder::Iterations;

namespace {

// The smallest piece of V and the smallest share of a piece, both in columns. Assumed: with smaller
// ones a transfer costs more than it saves at the end.
constexpr int64_t kLeastPieceColumns = 256, kLeastShareColumns = 64;

// How the columns are divided into blocks. Blocks of `width` columns come first. Then each of
// `levels` steps adds two pieces that are half as wide as the pieces before.
struct Taper {
  int64_t width, levels = 0;

  Taper(int64_t block, int64_t columns) : width(block) {
    while (width % (2 * kLeastPieceColumns << levels) == 0) ++levels;
    while (levels > 0 && tapered_columns() > columns) --levels;
  }
  int64_t tapered_columns() const { return 2 * (width - (width >> levels)); }
};

// Returns at how many partitions `rows` rows may begin.
int64_t num_start_partitions(int64_t rows) { return rows > 64 ? 1 : rows > 32 ? 2 : 4; }

// How the columns of a piece are divided into shares. The division suits the rows of V that fill no
// tile. Y uses the same division if its rows can begin at as many partitions.
struct Shares {
  int64_t remainder, count;
  bool spreads_remainder, spreads_y;

  Shares(int64_t M, int64_t ranks) : remainder(ranks % kPartitions) {
    const int64_t for_remainder = remainder == 0 ? 1 : num_start_partitions(remainder);
    spreads_remainder = for_remainder > 1;
    count = spreads_remainder ? for_remainder : num_start_partitions(M);
    spreads_y = count > 1 && num_start_partitions(M) >= count;
  }
  int64_t height() const { return kPartitions / count; }
  int64_t count_for(int64_t columns) const {
    return columns % (count * kLeastShareColumns) == 0 ? count : 1;
  }
};

class Expansion {
 public:
  Expansion(const Context& c, const LowRankTiles& tiles, const Tile& m, const Tile& ranks,
            const Factors& factors, BufferId strip)
      : c_(c),
        tiles_(tiles),
        m_(m),
        ranks_(ranks),
        strip_(strip),
        v_(factors.v),
        blocks_(ceil_div(ranks.size.max, tiles.Br)),
        shares_(m.size.max, ranks.size.max) {
    const int64_t width = std::min<int64_t>(tiles.BN, c.b.buffer(v_).shape[2]);
    const int64_t rows = std::min<int64_t>(tiles.Br, ranks.size.max) / kPartitions;
    const auto declare = [&](std::string_view name, DType dtype, int64_t depth, int64_t copies) {
      return c.b.declare_sbuf(factors.prefix + std::string(name), dtype,
                              {kPartitions, depth, width}, copies);
    };
    v_block_ = declare("v_block", c.dtype, std::max<int64_t>(rows, 1), tiles.copies);
    if (shares_.remainder > 0) remainder_block_ = declare("v_rest", c.dtype, 1, tiles.copies);
    if (blocks_ > 1) sums_ = declare("sums", c.accumulate, 1, 2);
    y_block_ = declare("y_block", c.dtype, 1, 2);
    copy_strip_remainder();
  }

  void run(int64_t columns, BufferId y) {
    const Taper taper(tiles_.BN, columns);
    int64_t begin = columns - taper.tapered_columns();
    const auto block = [&](const Tile& n) { column_block(n, n.size.max, y); };
    if (begin > 0) loop_blocks(c_.b, "n", whole(begin), tiles_.BN, block);
    int64_t piece = taper.width / 2;
    for (int64_t level = 0; level < taper.levels; ++level, piece /= 2) {
      column_block(Tile{.start = begin, .size = {.max = 2 * piece}}, piece, y);
      begin += 2 * piece;
    }
  }

 private:
  int64_t remainder_tile() const { return ranks_.size.max / kPartitions; }

  // Copies the last rows of the strip to each place where a share of V begins, because both
  // operands of a matmul need the same partitions.
  void copy_strip_remainder() const {
    const auto rows = [&](int64_t first) {
      return at(strip_, {{first, {.max = shares_.remainder}}, one(remainder_tile()), upto(m_)});
    };
    if (!shares_.spreads_remainder) return;
    for (int64_t i = 1; i < shares_.count; ++i) c_.b.copy(rows(i * shares_.height()), rows(0));
  }

  // Computes the columns n of Y. The last rank block is loaded, multiplied and stored `piece`
  // columns at a time.
  void column_block(const Tile& n, int64_t piece, BufferId y) const {
    c_.b.allocate(y_block_);
    if (blocks_ > 1) c_.b.allocate(sums_);
    if (blocks_ > 1) c_.b.zero(at(sums_, {upto(m_), one(0), upto(n)}));
    const int64_t ranks_before_last = (blocks_ - 1) * tiles_.Br;
    const auto rank_block = [&](const Tile& q) {
      load(q, n, n.size.max);
      multiply(q, n, n, n.size.max);
    };
    if (ranks_before_last > 0) {
      c_.b.loop("q", whole(ranks_before_last), tiles_.Br, rank_block, Iterations::kCarried);
    }
    const Tile q{.start = ranks_before_last,
                 .size = {.max = ranks_.size.max - ranks_before_last},
                 .step = tiles_.Br};
    load(q, n, piece);
    c_.b.loop("p", n, piece, [&](const Tile& p) {
      multiply(q, n, p, share(p, true));
      store(n, p, y);
    });
  }

  tile::Step share(const Tile& p, bool spreads) const {
    return p.size.max / (spreads ? shares_.count_for(p.size.max) : 1);
  }
  Slice partitions(const Tile& s, int64_t rows) const {
    return {s.index() * shares_.height(), {.max = rows}};
  }

  Slice remainder_partitions(const Tile& s) const {
    return shares_.spreads_remainder ? partitions(s, shares_.remainder) : all(shares_.remainder);
  }

  // Loads the rows q and the columns n of V, `piece` columns at a time.
  void load(const Tile& q, const Tile& n, int64_t piece) const {
    const bool tiles = q.size.max >= kPartitions, has_remainder = q.size.max % kPartitions > 0;
    if (tiles) c_.b.allocate(v_block_);
    if (has_remainder) c_.b.allocate(remainder_block_);
    c_.b.loop("p", n, piece, [&](const Tile& p) {
      if (tiles) {
        const int64_t depth = q.size.max / kPartitions;
        c_.b.load(at(v_block_, {all(kPartitions), all(depth), p.in(n)}),
                  at(v_, {all(kPartitions), tiles_of(q), p}));
      }
      if (has_remainder) load_remainder(n, p);
    });
  }

  void load_remainder(const Tile& n, const Tile& p) const {
    const Slice rows{ranks_.size.max - shares_.remainder, {.max = shares_.remainder}};
    c_.b.loop("s", p, share(p, shares_.spreads_remainder), [&](const Tile& s) {
      c_.b.load(at(remainder_block_, {remainder_partitions(s), one(0), s.in(n)}),
                at(c_.b.buffer(v_).view_of, {rows, s}));
    });
  }

  // Multiplies the columns p of what load() has loaded, `step` columns at a time.
  void multiply(const Tile& q, const Tile& n, const Tile& p, const tile::Step& step) const {
    c_.b.loop("s", p, step, [&](const Tile& s) {
      c_.b.loop("nt", s, kMovingFree, [&](const Tile& nt) {
        const Access psum = c_.new_psum(upto(m_), upto(nt));
        const bool tiles = q.size.max >= kPartitions;
        if (tiles) multiply_tiles(q, n, nt, psum);
        if (q.size.max % kPartitions > 0) multiply_remainder(!tiles, n, s, nt, psum);
        if (blocks_ == 1) return c_.b.copy(y_share(s, nt.in(n)), psum);
        const Access sum = at(sums_, {upto(m_), one(0), nt.in(n)});
        c_.b.add(sum, sum, psum);
      });
    });
  }

  void multiply_tiles(const Tile& q, const Tile& n, const Tile& nt, const Access& psum) const {
    const Tile rows{.start = q.start, .size = {.max = q.size.max / kPartitions * kPartitions}};
    c_.b.loop("rt", rows, kPartitions, [&](const Tile& rt) {
      c_.b.matmul(psum, at(strip_, {all(kPartitions), one(rt.index_in(ranks_)), upto(m_)}),
                  at(v_block_, {all(kPartitions), one(rt.index()), nt.in(n)}), {rt});
    });
  }

  void multiply_remainder(bool only_remainder, const Tile& n, const Tile& s, const Tile& nt,
                          const Access& psum) const {
    const Access left = at(strip_, {remainder_partitions(s), one(remainder_tile()), upto(m_)});
    const Access right = at(remainder_block_, {remainder_partitions(s), one(0), nt.in(n)});
    only_remainder ? c_.b.matmul(psum, left, right, {}) : c_.b.matmul_adding(psum, left, right);
  }

  // Returns the place in SBUF where a share of Y waits to be stored.
  Access y_share(const Tile& s, const Slice& columns) const {
    const Slice rows = shares_.spreads_y ? partitions(s, m_.size.max) : upto(m_);
    return at(y_block_, {rows, one(0), columns});
  }

  void store(const Tile& n, const Tile& p, BufferId y) const {
    c_.b.loop("s", p, share(p, shares_.spreads_y), [&](const Tile& s) {
      const Access block = y_share(s, s.in(n));
      if (blocks_ > 1) c_.b.copy(block, at(sums_, {upto(m_), one(0), s.in(n)}));
      c_.b.store(at(y, {m_, s}), block);
    });
  }

  const Context& c_;
  const LowRankTiles& tiles_;
  const Tile &m_, &ranks_;
  BufferId strip_, v_, v_block_ = -1, remainder_block_ = -1, sums_ = -1, y_block_ = -1;
  int64_t blocks_;
  Shares shares_;
};

}  // namespace

void expand_few_rows(const Context& c, const LowRankTiles& tiles, const Tile& m, int64_t columns,
                     const Tile& ranks, const Factors& factors, BufferId strip, BufferId y) {
  Expansion(c, tiles, m, ranks, factors, strip).run(columns, y);
}

// All rank blocks except the last are multiplied with all columns of a block at once. The last one
// is multiplied piece by piece and share by share.
int64_t few_rows_matmuls(const LowRankTiles& tiles, int64_t M, int64_t columns, int64_t ranks) {
  const int64_t blocks = ceil_div(ranks, tiles.Br), ranks_before_last = (blocks - 1) * tiles.Br;
  const Shares shares(M, ranks);
  const Taper taper(tiles.BN, columns);
  const auto last_block = [&](int64_t piece) {
    const int64_t count = shares.count_for(piece);
    return count * ceil_div(piece / count, kMovingFree) *
           ceil_div(ranks - ranks_before_last, kPartitions);
  };
  const auto column_block = [&](int64_t width, int64_t piece) {
    return ceil_div(width, kMovingFree) * (ranks_before_last / kPartitions) +
           width / piece * last_block(piece);
  };
  const int64_t begin = columns - taper.tapered_columns(), remainder = begin % tiles.BN;
  int64_t matmuls = begin / tiles.BN * column_block(tiles.BN, tiles.BN);
  if (remainder > 0) matmuls += column_block(remainder, remainder);
  int64_t piece = taper.width / 2;
  for (int64_t level = 0; level < taper.levels; ++level, piece /= 2) {
    matmuls += column_block(2 * piece, piece);
  }
  return matmuls;
}

}  // namespace neuronmm::kernels
