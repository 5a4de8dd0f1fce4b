// Checks the walk over the instructions of a program, and the counts that it gives.

#include "trainium/tile/walk.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainium/tile/builder.h"
#include "trainium/tile/counts.h"

namespace neuronmm::tile {
namespace {

// Returns a program that copies a [rows, columns] matrix in tiles of 128 x 512.
Program copy_program(int64_t rows, int64_t columns) {
  Builder b("copy");
  const BufferId x = b.input("x", DType::kBF16, {rows, columns});
  const BufferId y = b.output("y", DType::kBF16, {rows, columns});
  b.loop("m", rows, 128, [&](const Tile& m) {
    b.loop("n", columns, 512, [&](const Tile& n) {
      const BufferId block = b.sbuf("block", DType::kBF16, {128, 512}, 2);
      b.load(at(block, {upto(m), upto(n)}), at(x, {m, n}));
      b.store(at(y, {m, n}), at(block, {upto(m), upto(n)}));
    });
  });
  return b.finish();
}

TEST(Walker, VisitsNodesInOrderWithLoopValues) {
  const Program program = copy_program(300, 600);
  std::vector<std::string> visits;
  Walker walker(program);
  while (walker.next()) {
    const auto values = walker.loop_values();
    const std::string what = walker.allocate() ? "allocate" : walker.instruction()->label;
    visits.push_back(what + " " + std::to_string(values[0]) + std::to_string(values[1]));
    EXPECT_EQ(walker.node(), static_cast<int32_t>((visits.size() - 1) % 3));
  }
  EXPECT_EQ(walker.num_nodes(), 3);
  ASSERT_EQ(visits.size(), 3u * 3 * 2);
  EXPECT_EQ(visits[0], "allocate 00");
  EXPECT_EQ(visits[1], "load block 00");
  EXPECT_EQ(visits[2], "store y 00");
  EXPECT_EQ(visits[4], "load block 01");
  EXPECT_EQ(visits[17], "store y 21");
  EXPECT_FALSE(walker.next());
}

TEST(Walker, SkipsLoopsWithoutIterations) {
  Program program = copy_program(128, 512);
  std::get<Loop>(program.body[0]).limit = 0;
  Walker walker(program);
  EXPECT_FALSE(walker.next());
}

TEST(Walker, RaggedTilesCoverEveryElementOnce) {
  const int64_t rows = 300, columns = 1025;
  const Program program = copy_program(rows, columns);
  std::vector<int> loads(static_cast<size_t>(rows * columns));
  for (Walker walker(program); walker.next();) {
    if (!walker.instruction() || walker.node() != 1) continue;
    const auto& dma = std::get<DmaCopy>(walker.instruction()->operation);
    const Region region = evaluate(dma.src, walker.loop_values());
    for (int64_t i = 0; i < region.size[0]; ++i) {
      for (int64_t j = 0; j < region.size[1]; ++j) {
        ++loads[static_cast<size_t>((region.start[0] + i) * columns + region.start[1] + j)];
      }
    }
  }
  for (const int count : loads) ASSERT_EQ(count, 1);
}

TEST(Counts, OnlyElementsThatExistCount) {
  const Counts counts = count(copy_program(300, 1025));
  EXPECT_EQ(counts.hbm_read_bytes, 2 * 300 * 1025);
  EXPECT_EQ(counts.hbm_write_bytes, 2 * 300 * 1025);
  EXPECT_EQ(counts.dma_copies, 2 * 3 * 3);
  EXPECT_EQ(counts.instructions, 2 * 3 * 3);
  EXPECT_EQ(counts.nc_matmuls, 0);
}

}  // namespace
}  // namespace neuronmm::tile
