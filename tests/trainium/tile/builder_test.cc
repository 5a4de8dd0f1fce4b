// Checks tiles and loops of the builder, and the text of a program.

#include "trainium/tile/builder.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "trainium/tile/printer.h"
#include "trainium/tile/walk.h"

namespace neuronmm::tile {
namespace {

TEST(Affine, SumsTermsAndDropsZeros) {
  Affine i, j;
  i.terms = {{0, 1}};
  j.terms = {{1, 1}};
  const Affine sum = i * 3 + j * 5 + 7 - i * 2;
  const std::vector<int64_t> values = {10, 100};
  EXPECT_EQ(sum.eval(values), 10 + 500 + 7);
  EXPECT_TRUE(sum - i == j * 5 + 7);
  EXPECT_TRUE((i - i).terms.empty());
  EXPECT_TRUE((i * 0) == Affine(0));
  EXPECT_FALSE(i == j);
}

TEST(Affine, SizesAndTripCountsClampAtTheEdge) {
  Affine origin;
  origin.terms = {{0, 128}};
  const Size size{128, 300, origin};
  const std::vector<int64_t> full = {1}, ragged = {2}, beyond = {3};
  EXPECT_EQ(size.eval(full), 128);
  EXPECT_EQ(size.eval(ragged), 44);
  EXPECT_EQ(size.eval(beyond), 0);
  Loop loop;
  loop.max = 4;
  loop.step = 32;
  loop.limit = 300;
  loop.origin = origin;
  EXPECT_EQ(loop.trip_count(full), 4);
  EXPECT_EQ(loop.trip_count(ragged), 2);
  EXPECT_EQ(loop.trip_count(beyond), 0);
}

// Three nested levels over one dimension visit every element once, inside its block, for any size.
TEST(Builder, NestedTilesPartitionTheDimension) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const int64_t size = std::uniform_int_distribution<int64_t>(1, 3000)(random);
    const int64_t inner = std::uniform_int_distribution<int64_t>(1, 3)(random) * 64;
    const int64_t outer = inner * std::uniform_int_distribution<int64_t>(1, 6)(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + " size " + std::to_string(size) + " steps " +
                 std::to_string(outer) + " " + std::to_string(inner));
    Builder b("nested");
    const BufferId x = b.input("x", DType::kF32, {size});
    const BufferId offsets = b.scratch("offsets", DType::kF32, {size});
    b.loop("block", size, outer, [&](const Tile& block) {
      b.loop("tile", block, inner,
             [&](const Tile& tile) { b.load(at(offsets, {tile.in(block)}), at(x, {tile})); });
    });
    const Program program = b.finish();
    int64_t next = 0;
    for (Walker walker(program); walker.next();) {
      const auto& dma = std::get<DmaCopy>(walker.instruction()->operation);
      const Region tile = evaluate(dma.src, walker.loop_values());
      const Region in_block = evaluate(dma.dst, walker.loop_values());
      EXPECT_EQ(tile.start[0], next);
      EXPECT_GT(tile.size[0], 0);
      EXPECT_EQ(in_block.start[0], next % outer);
      EXPECT_EQ(in_block.size[0], tile.size[0]);
      EXPECT_LE(in_block.start[0] + in_block.size[0], outer);
      next += tile.size[0];
    }
    EXPECT_EQ(next, size);
  }
}

TEST(Builder, ExactSizesNeedNoLimits) {
  Builder b("exact");
  b.loop("m", 1024, 256, [&](const Tile& m) {
    EXPECT_FALSE(m.size.limit);
    b.loop("mt", m, 128, [&](const Tile& mt) {
      EXPECT_FALSE(mt.size.limit);
      EXPECT_TRUE(mt.index_in(m) == mt.index());
      EXPECT_TRUE(mt.index_in({.start = 0, .size = {.max = 1024}}) == m.index() * 2 + mt.index());
    });
  });
  const Program program = b.finish();
  EXPECT_FALSE(std::get<Loop>(program.body[0]).limit);
  EXPECT_EQ(program.num_loops, 2);
}

TEST(Printer, ShowsBuffersLoopsAndSlices) {
  Builder b("demo");
  const BufferId x = b.input("x", DType::kBF16, {300, 512});
  b.loop("m", 300, 128, [&](const Tile& m) {
    const BufferId block = b.sbuf("block", DType::kBF16, {128, 2, 512}, 2);
    b.load(at(block, {upto(m), one(1), all(512)}), at(x, {m, all(512)}));
  });
  EXPECT_EQ(print(b.finish()),
            "program demo\n"
            "  HBM  x BF16 [300, 512], 307200 bytes, input\n"
            "  SBUF block BF16 [128, 2, 512], 524288 bytes in 2 copies\n"
            "  for m.0 in 3:\n"
            "    allocate block\n"
            "    dma_copy(dst=block[0 : min(128, 300 - (128 m.0)), 1, 0 : 512], "
            "src=x[128 m.0 : min(128, 300 - (128 m.0)), 0 : 512])  # load block\n");
}

TEST(Printer, AViewNamesItsBuffer) {
  Builder b("demo");
  b.view("x_view", b.input("x", DType::kBF16, {256, 8}), {128, 2, 8});
  EXPECT_EQ(print(b.finish()),
            "program demo\n"
            "  HBM  x BF16 [256, 8], 4096 bytes, input\n"
            "  HBM  x_view BF16 [128, 2, 8], 4096 bytes, view of x\n");
}

TEST(Printer, RowTilesNameTheirBuffer) {
  Builder b("demo");
  b.row_tiles("x_tiles", b.input("x", DType::kBF16, {300, 8}));
  EXPECT_EQ(print(b.finish()),
            "program demo\n"
            "  HBM  x BF16 [300, 8], 4800 bytes, input\n"
            "  HBM  x_tiles BF16 [128, 2, 8], 4096 bytes, row tiles of x\n");
}

TEST(Printer, AnIndexStandsInItsAccess) {
  Builder b("demo");
  const BufferId matrices = b.matrices("matrices", b.input("x", DType::kBF16, {300, 8}), 100);
  const BufferId number = b.sbuf("number", DType::kI32, {1, 4});
  const BufferId tile = b.sbuf("tile", DType::kBF16, {100, 8}, 2);
  b.loop("d", 4, 1, [&](const Tile& d) {
    const Access index = at(number, {all(1), {d.start, {.max = 1}}});
    b.load(at(tile, {all(100), all(8)}), at_index(matrices, index, {all(100), all(8)}));
  });
  const std::string text = print(b.finish());
  EXPECT_EQ(text.substr(text.find("dma_copy")),
            "dma_copy(dst=tile[0 : 100, 0 : 8], src=matrices[number[0 : 1, d.0 : 1] + 0, 0 : 100, "
            "0 : 8])  # load tile\n");
  EXPECT_NE(text.find("matrices BF16 [3, 100, 8]"), text.npos);
}

TEST(Printer, AMatmulThatAlwaysAddsSaysSo) {
  Builder b("demo");
  const BufferId tile = b.sbuf("tile", DType::kBF16, {8, 8}), psum = b.psum("psum", {8, 8}, 1);
  const auto block = [](BufferId id) { return at(id, {all(8), all(8)}); };
  b.matmul_adding(block(psum), block(tile), block(tile));
  const std::string text = print(b.finish());
  EXPECT_EQ(text.substr(text.find("nc_matmul")),
            "nc_matmul(dst=psum[0 : 8, 0 : 8], stationary=tile[0 : 8, 0 : 8], "
            "moving=tile[0 : 8, 0 : 8], adds)  # matmul tile x tile\n");
}

}  // namespace
}  // namespace neuronmm::tile
