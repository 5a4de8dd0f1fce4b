// Checks the transfers of V and Y in kernels for up to 128 rows: the elements that they cover,
// their order and their partitions.

#include <algorithm>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainium/kernels/registry.h"
#include "trainium/tile/walk.h"

namespace neuronmm::kernels {
namespace {

using tile::Program;

Program xuv_of(const KernelShape& shape, TilingValues chosen) {
  chosen.emplace_back("contiguous", 1);
  const Kernel& kernel = *find_kernel("xuv").value();
  return make_program(kernel, shape, tiling_of(kernel, chosen).value(), {}).value();
}

// A transfer between HBM and the chip. In HBM it accesses a matrix or its row tiles.
struct MatrixTransfer {
  tile::Region on_chip, in_hbm;

  bool uses_row_tiles() const { return in_hbm.dimensions == 3; }
  int64_t column() const { return in_hbm.start[in_hbm.dimensions - 1]; }
  int64_t columns() const { return in_hbm.size[in_hbm.dimensions - 1]; }
  int64_t partition() const { return on_chip.start[0]; }
};

// Returns the transfers of the buffers whose names begin with `name`.
std::vector<MatrixTransfer> transfers(const Program& program, std::string_view name) {
  std::vector<MatrixTransfer> all;
  for (tile::Walker walker(program); walker.next();) {
    if (!walker.instruction()) continue;
    const auto* dma = std::get_if<tile::DmaCopy>(&walker.instruction()->operation);
    if (!dma) continue;
    const bool stores = program.buffer(dma->dst.buffer).memory == tile::Memory::kHbm;
    const tile::Access &hbm = stores ? dma->dst : dma->src, &chip = stores ? dma->src : dma->dst;
    if (!program.buffer(hbm.buffer).name.starts_with(name)) continue;
    all.push_back(
        {tile::evaluate(chip, walker.loop_values()), tile::evaluate(hbm, walker.loop_values())});
  }
  return all;
}

std::vector<int64_t> widths(const std::vector<MatrixTransfer>& transfers) {
  std::vector<int64_t> all;
  for (const MatrixTransfer& transfer : transfers) all.push_back(transfer.columns());
  return all;
}

std::set<int64_t> partitions(const std::vector<MatrixTransfer>& transfers, bool row_tiles) {
  std::set<int64_t> all;
  for (const MatrixTransfer& transfer : transfers) {
    if (transfer.uses_row_tiles() == row_tiles) all.insert(transfer.partition());
  }
  return all;
}

TEST(FewRows, TheLastBlockComesInPiecesThatHalve) {
  const Program program = xuv_of({128, 2048, 1280, 8192}, {{"BN", 4}, {"Br", 10}});
  EXPECT_EQ(widths(transfers(program, "v")),
            (std::vector<int64_t>{2048, 2048, 512, 1024, 1024, 512, 512, 256, 256}));
  EXPECT_EQ(widths(transfers(program, "y")),
            (std::vector<int64_t>{2048, 2048, 512, 1024, 1024, 512, 512, 256, 256}));
}

// With several blocks of ranks, only the last one comes in pieces, because the Tensor engine has
// work from the other blocks meanwhile.
TEST(FewRows, TheLastBlockOfRanksIsTapered) {
  const Program program = xuv_of({128, 256, 512, 1024}, {{"BN", 2}, {"Br", 2}});
  EXPECT_EQ(widths(transfers(program, "v")), (std::vector<int64_t>{1024, 512, 512}));
}

TEST(FewRows, NarrowBlocksAreNotTapered) {
  const Program program = xuv_of({128, 256, 128, 500}, {{"BN", 1}});
  EXPECT_EQ(widths(transfers(program, "v")), (std::vector<int64_t>{500}));
}

// A DMA engine serves eight partitions. A remainder that fills no tile would leave most engines
// idle if it lay at partition 0 only.
TEST(FewRows, RemaindersAreSpreadOverThePartitions) {
  const std::pair<int64_t, std::set<int64_t>> expected[] = {
      {32, {0, 32, 64, 96}}, {1, {0, 32, 64, 96}}, {64, {0, 64}}, {33, {0, 64}}, {65, {0}}};
  for (const auto& [remainder, start_partitions] : expected) {
    const Program program = xuv_of({64, 256, 256 + remainder, 1024}, {{"BN", 2}, {"Br", 1}});
    EXPECT_EQ(partitions(transfers(program, "v"), false), start_partitions) << remainder;
    EXPECT_EQ(partitions(transfers(program, "v"), true), std::set<int64_t>{0});
  }
}

TEST(FewRows, RowsOfYAreSpreadOverThePartitions) {
  const std::pair<int64_t, std::set<int64_t>> expected[] = {
      {1, {0, 32, 64, 96}}, {32, {0, 32, 64, 96}}, {33, {0, 64}}, {65, {0}}};
  for (const auto& [rows, start_partitions] : expected) {
    for (const int64_t Br : {1, 2}) {
      const Program program = xuv_of({rows, 256, 256, 1024}, {{"BN", 2}, {"Br", Br}});
      EXPECT_EQ(partitions(transfers(program, "y"), false), start_partitions) << rows;
    }
  }
}

// Returns how often each element of a matrix [rows, columns] is moved.
std::vector<int> moves(const std::vector<MatrixTransfer>& transfers, int64_t rows,
                       int64_t columns) {
  std::vector<int> times(static_cast<size_t>(rows * columns));
  const auto count = [&](int64_t row, const MatrixTransfer& transfer) {
    for (int64_t n = 0; n < transfer.columns(); ++n) {
      ++times.at(static_cast<size_t>(row * columns + transfer.column() + n));
    }
  };
  for (const MatrixTransfer& t : transfers) {
    for (int64_t i = 0; i < t.in_hbm.size[0]; ++i) {
      const int64_t first = t.in_hbm.start[0] + i;
      if (!t.uses_row_tiles()) count(first, t);
      for (int64_t j = 0; t.uses_row_tiles() && j < t.in_hbm.size[1]; ++j) {
        count((t.in_hbm.start[1] + j) * 128 + first, t);
      }
    }
  }
  return times;
}

TEST(FewRows, EveryElementOfVAndYMovesOnce) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const auto pick = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 60; ++i) {
    const KernelShape shape{.M = pick(1, 128), .K = 128, .r = pick(128, 700), .N = pick(1, 5000)};
    const int64_t BN = pick(1, 9), Br = pick(1, 6);
    SCOPED_TRACE(fmt::format("seed {}: M {} r {} N {} BN {} Br {}", seed, shape.M, shape.r, shape.N,
                             BN, Br));
    const Program program = xuv_of(shape, {{"BN", BN}, {"Br", Br}});
    const auto once = [](const std::vector<int>& times) {
      return std::ranges::all_of(times, [](int n) { return n == 1; });
    };
    EXPECT_TRUE(once(moves(transfers(program, "v"), shape.r, shape.N)));
    EXPECT_TRUE(once(moves(transfers(program, "y"), shape.M, shape.N)));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace neuronmm::kernels
