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
constexpr int64_t kLeastPiece = 256, kLeastShare = 64;

// How the columns are divided into blocks. Blocks of `width` columns come first. Then each of
// `levels` steps adds two pieces that are half as wide as the pieces before.
struct Taper {
  int64_t width, levels = 0;

  Taper(int64_t block, int64_t columns) : width(block) {
    while (width % (2 * kLeastPiece << levels) == 0) ++levels;
    while (levels > 0 && tapered() > columns) --levels;
  }
  int64_t tapered() const { return 2 * (width - (width >> levels)); }
};

// Returns at how many partitions `rows` rows may begin.
int64_t places(int64_t rows) { return rows > 64 ? 1 : rows > 32 ? 2 : 4; }

// How the columns of a piece are divided into shares. The division suits the rows of V that fill no
// tile. Y uses the same division if its rows can begin at as many partitions.
struct Shares {
  int64_t rest, count;
  bool spreads_rest, spreads_y;

  Shares(int64_t M, int64_t ranks) : rest(ranks % kPartitions) {
    const int64_t of_rest = rest == 0 ? 1 : places(rest);
    spreads_rest = of_rest > 1;
    count = spreads_rest ? of_rest : places(M);
    spreads_y = count > 1 && places(M) >= count;
  }
  int64_t height() const { return kPartitions / count; }
  int64_t of(int64_t columns) const { return columns % (count * kLeastShare) == 0 ? count : 1; }
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
    if (shares_.rest > 0) rest_block_ = declare("v_rest", c.dtype, 1, tiles.copies);
    if (blocks_ > 1) sums_ = declare("sums", c.accumulate, 1, 2);
    y_block_ = declare("y_block", c.dtype, 1, 2);
    copy_rest_of_strip();
  }

  void run(int64_t columns, BufferId y) {
    const Taper taper(tiles_.BN, columns);
    int64_t begin = columns - taper.tapered();
    const auto block = [&](const Tile& n) { column_block(n, n.size.max, y); };
    if (begin > 0) loop_blocks(c_.b, "n", whole(begin), tiles_.BN, block);
    int64_t piece = taper.width / 2;
    for (int64_t level = 0; level < taper.levels; ++level, piece /= 2) {
      column_block(Tile{.start = begin, .size = {.max = 2 * piece}}, piece, y);
      begin += 2 * piece;
    }
  }

 private:
  int64_t rest_tile() const { return ranks_.size.max / kPartitions; }

  // Copies the last rows of the strip to each place where a share of V begins, because both
  // operands of a matmul need the same partitions.
  void copy_rest_of_strip() const {
    const auto rows = [&](int64_t first) {
      return at(strip_, {{first, {.max = shares_.rest}}, one(rest_tile()), upto(m_)});
    };
    if (!shares_.spreads_rest) return;
    for (int64_t i = 1; i < shares_.count; ++i) c_.b.copy(rows(i * shares_.height()), rows(0));
  }

  // Computes the columns n of Y. The last rank block is loaded, multiplied and stored `piece`
  // columns at a time.
  void column_block(const Tile& n, int64_t piece, BufferId y) const {
    c_.b.allocate(y_block_);
    if (blocks_ > 1) c_.b.allocate(sums_);
    if (blocks_ > 1) c_.b.zero(at(sums_, {upto(m_), one(0), upto(n)}));
    const int64_t before = (blocks_ - 1) * tiles_.Br;
    const auto rank_block = [&](const Tile& q) {
      load(q, n, n.size.max);
      multiply(q, n, n, n.size.max);
    };
    if (before > 0) c_.b.loop("q", whole(before), tiles_.Br, rank_block, Iterations::kCarried);
    const Tile q{.start = before, .size = {.max = ranks_.size.max - before}, .step = tiles_.Br};
    load(q, n, piece);
    c_.b.loop("p", n, piece, [&](const Tile& p) {
      multiply(q, n, p, share(p, true));
      store(n, p, y);
    });
  }

  tile::Step share(const Tile& p, bool spreads) const {
    return p.size.max / (spreads ? shares_.of(p.size.max) : 1);
  }
  Slice partitions(const Tile& s, int64_t rows) const {
    return {s.index() * shares_.height(), {.max = rows}};
  }

  Slice rest_place(const Tile& s) const {
    return shares_.spreads_rest ? partitions(s, shares_.rest) : all(shares_.rest);
  }

  // Loads the rows q and the columns n of V, `piece` columns at a time.
  void load(const Tile& q, const Tile& n, int64_t piece) const {
    const bool tiles = q.size.max >= kPartitions, rest = q.size.max % kPartitions > 0;
    if (tiles) c_.b.allocate(v_block_);
    if (rest) c_.b.allocate(rest_block_);
    c_.b.loop("p", n, piece, [&](const Tile& p) {
      if (tiles) {
        const int64_t depth = q.size.max / kPartitions;
        c_.b.load(at(v_block_, {all(kPartitions), all(depth), p.in(n)}),
                  at(v_, {all(kPartitions), tiles_of(q), p}));
      }
      if (rest) load_rest(n, p);
    });
  }

  void load_rest(const Tile& n, const Tile& p) const {
    const Slice rows{ranks_.size.max - shares_.rest, {.max = shares_.rest}};
    c_.b.loop("s", p, share(p, shares_.spreads_rest), [&](const Tile& s) {
      c_.b.load(at(rest_block_, {rest_place(s), one(0), s.in(n)}),
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
        if (q.size.max % kPartitions > 0) multiply_rest(!tiles, n, s, nt, psum);
        if (blocks_ == 1) return c_.b.copy(y_place(s, nt.in(n)), psum);
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

  void multiply_rest(bool alone, const Tile& n, const Tile& s, const Tile& nt,
                     const Access& psum) const {
    const Access left = at(strip_, {rest_place(s), one(rest_tile()), upto(m_)});
    const Access right = at(rest_block_, {rest_place(s), one(0), nt.in(n)});
    alone ? c_.b.matmul(psum, left, right, {}) : c_.b.matmul_onto(psum, left, right);
  }

  // Returns the place in SBUF where a share of Y waits to be stored.
  Access y_place(const Tile& s, const Slice& columns) const {
    const Slice rows = shares_.spreads_y ? partitions(s, m_.size.max) : upto(m_);
    return at(y_block_, {rows, one(0), columns});
  }

  void store(const Tile& n, const Tile& p, BufferId y) const {
    c_.b.loop("s", p, share(p, shares_.spreads_y), [&](const Tile& s) {
      const Access block = y_place(s, s.in(n));
      if (blocks_ > 1) c_.b.copy(block, at(sums_, {upto(m_), one(0), s.in(n)}));
      c_.b.store(at(y, {m_, s}), block);
    });
  }

  const Context& c_;
  const LowRankTiles& tiles_;
  const Tile &m_, &ranks_;
  BufferId strip_, v_, v_block_ = -1, rest_block_ = -1, sums_ = -1, y_block_ = -1;
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
  const int64_t blocks = ceil_div(ranks, tiles.Br), before = (blocks - 1) * tiles.Br;
  const Shares shares(M, ranks);
  const Taper taper(tiles.BN, columns);
  const auto last_block = [&](int64_t piece) {
    const int64_t count = shares.of(piece);
    return count * ceil_div(piece / count, kMovingFree) * ceil_div(ranks - before, kPartitions);
  };
  const auto column_block = [&](int64_t width, int64_t piece) {
    return ceil_div(width, kMovingFree) * (before / kPartitions) +
           width / piece * last_block(piece);
  };
  const int64_t begin = columns - taper.tapered(), rest = begin % tiles.BN;
  int64_t all = begin / tiles.BN * column_block(tiles.BN, tiles.BN);
  if (rest > 0) all += column_block(rest, rest);
  int64_t piece = taper.width / 2;
  for (int64_t level = 0; level < taper.levels; ++level, piece /= 2) {
    all += column_block(2 * piece, piece);
  }
  return all;
}

}  // namespace neuronmm::kernels
