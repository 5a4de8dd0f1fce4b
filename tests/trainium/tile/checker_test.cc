// Checks every rule of the machine with a program that breaks it.

#include "trainium/tile/checker.h"

#include <functional>

#include <gtest/gtest.h>

#include "trainium/tile/builder.h"

namespace neuronmm::tile {
namespace {

constexpr DType kBF16 = DType::kBF16, kF32 = DType::kF32;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Expects one violation, which names its instruction, its buffer and the numbers.
void expect_violation(const Program& program, std::string_view instruction, std::string_view buffer,
                      std::string_view part) {
  const CheckReport report = check(program, {});
  ASSERT_EQ(report.violations.size(), 1u)
      << (report.violations.empty() ? "" : report.violations[1].message);
  const Violation& violation = report.violations[0];
  EXPECT_EQ(violation.instruction, instruction) << violation.message;
  EXPECT_EQ(violation.buffer, buffer) << violation.message;
  EXPECT_TRUE(contains(violation.message, part)) << violation.message;
}

// Makes SBUF and PSUM buffers that are written, for the instruction under test.
class Rule : public testing::Test {
 protected:
  BufferId filled(std::string_view name, DType dtype, const Shape& shape) {
    const BufferId id = b.sbuf(name, dtype, shape);
    b.zero({id, slices(shape)});
    return id;
  }
  BufferId filled_psum(std::string_view name, const Shape& shape) {
    const BufferId id = b.psum(name, shape, 1);
    b.zero({id, slices(shape)});
    return id;
  }
  static std::vector<Slice> slices(const Shape& shape) {
    std::vector<Slice> whole;
    for (const int64_t size : shape) whole.push_back(all(size));
    return whole;
  }
  static Access block(BufferId id, int64_t partitions, int64_t columns) {
    return at(id, {all(partitions), all(columns)});
  }

  Builder b{"rule"};
};

TEST_F(Rule, AcceptsAGoodProgram) {
  const BufferId u = filled("u", kBF16, {128, 128}), x = filled("x", kBF16, {128, 512});
  b.matmul(block(b.psum("psum", {128, 512}, 1), 128, 512), block(u, 128, 128), block(x, 128, 512),
           {});
  const CheckReport report = check(b.finish(), {});
  EXPECT_TRUE(report.ok() && report.fits());
  EXPECT_EQ(report.sbuf.peak, 2 * (128 + 512));
  EXPECT_EQ(report.psum.peak, 1);
}

TEST_F(Rule, StationaryHasAtMost128Columns) {
  const BufferId u = filled("u", kBF16, {128, 129}), x = filled("x", kBF16, {128, 64});
  const BufferId psum = b.psum("psum", {128, 64}, 1);
  b.matmul(block(psum, 128, 64), block(u, 128, 129), block(x, 128, 64), {});
  const CheckReport report = check(b.finish(), {});
  ASSERT_EQ(report.violations.size(), 2u);  // The result also has 129 partitions.
  EXPECT_TRUE(contains(report.violations[0].message, "129 stationary columns of u, at most 128"));
}

TEST_F(Rule, MovingHasAtMost512Columns) {
  const BufferId u = filled("u", kBF16, {128, 4}), x = filled("x", kBF16, {128, 600});
  const BufferId psum = b.psum("psum", {128, 600}, 1);
  b.matmul(block(psum, 4, 600), block(u, 128, 4), block(x, 128, 600), {});
  const CheckReport report = check(b.finish(), {});
  ASSERT_EQ(report.violations.size(), 2u);  // The result also crosses a bank.
  EXPECT_TRUE(contains(report.violations[0].message, "600 moving columns of x, at most 512"));
  EXPECT_TRUE(contains(report.violations[1].message, "cross a PSUM bank of 2048 bytes"));
}

TEST_F(Rule, MatmulContractionsAgree) {
  const BufferId u = filled("u", kBF16, {128, 8}), x = filled("x", kBF16, {128, 8});
  b.matmul(block(b.psum("psum", {128, 8}, 1), 8, 8), block(u, 128, 8), block(x, 64, 8), {});
  expect_violation(b.finish(), "matmul u x x", "x", "stationary has 128 partitions, moving 64");
}

TEST_F(Rule, MatmulResultHasTheShapeOfItsOperands) {
  const BufferId u = filled("u", kBF16, {128, 8}), x = filled("x", kBF16, {128, 16});
  b.matmul(block(b.psum("psum", {128, 16}, 1), 16, 8), block(u, 128, 8), block(x, 128, 16), {});
  expect_violation(b.finish(), "matmul u x x", "psum", "dst is 16 x 8");
}

TEST_F(Rule, MatmulResultLiesInOneBank) {
  const BufferId u = filled("u", kBF16, {128, 8}), x = filled("x", kBF16, {128, 16});
  const BufferId psum = b.psum("psum", {128, 1024}, 1);
  b.matmul(at(psum, {all(8), {504, {16}}}), block(u, 128, 8), block(x, 128, 16), {});
  expect_violation(b.finish(), "matmul u x x", "psum", "bytes 2016 to 2080 of psum");
}

TEST_F(Rule, TensorEngineReadsSbuf) {
  const BufferId u = filled_psum("u", {128, 8}), x = filled("x", kF32, {128, 8});
  b.matmul(block(b.psum("psum", {128, 8}, 1), 8, 8), block(u, 128, 8), block(x, 128, 8), {});
  expect_violation(b.finish(), "matmul u x x", "u", "reads SBUF only");
}

TEST_F(Rule, TensorEngineWritesPsum) {
  const BufferId u = filled("u", kF32, {128, 8}), x = filled("x", kF32, {128, 8});
  b.matmul(block(b.sbuf("y", kF32, {128, 8}), 8, 8), block(u, 128, 8), block(x, 128, 8), {});
  expect_violation(b.finish(), "matmul u x x", "y", "writes PSUM only");
}

TEST_F(Rule, MatmulDtypesAgree) {
  const BufferId u = filled("u", kBF16, {128, 8}), x = filled("x", kF32, {128, 8});
  b.matmul(block(b.psum("psum", {128, 8}, 1), 8, 8), block(u, 128, 8), block(x, 128, 8), {});
  expect_violation(b.finish(), "matmul u x x", "u", "fp32 multiplies fp32 only");
}

TEST_F(Rule, DmaDoesNotReachPsum) {
  const BufferId psum = filled_psum("psum", {128, 8});
  b.store(block(b.output("y", kF32, {128, 8}), 128, 8), block(psum, 128, 8));
  expect_violation(b.finish(), "store y", "psum", "DMA does not reach PSUM");
}

TEST_F(Rule, DmaDoesNotConvert) {
  const BufferId x = filled("x", kF32, {128, 8});
  b.store(block(b.output("y", kBF16, {128, 8}), 128, 8), block(x, 128, 8));
  expect_violation(b.finish(), "store y", "y", "DMA does not convert");
}

TEST_F(Rule, DmaTransposesOnlyTwoByteElements) {
  const BufferId x = b.input("x", kF32, {16, 8});
  b.load_transposed(block(b.sbuf("x_t", kF32, {128, 16}), 8, 16), block(x, 16, 8));
  expect_violation(b.finish(), "load x_t transposed", "x", "2-byte elements only");
}

TEST_F(Rule, DmaShapesAgree) {
  const BufferId x = b.input("x", kBF16, {128, 8});
  b.load(block(b.sbuf("tile", kBF16, {128, 8}), 128, 4), block(x, 128, 8));
  expect_violation(b.finish(), "load tile", "tile", "dst is [128, 4], src is [128, 8]");
}

TEST_F(Rule, EnginesDoNotReachHbm) {
  const BufferId x = b.input("x", kBF16, {128, 8});
  b.copy(block(b.sbuf("tile", kBF16, {128, 8}), 128, 8), block(x, 128, 8));
  expect_violation(b.finish(), "copy x to tile", "x", "HBM goes by DMA");
}

TEST_F(Rule, OnlyOneInputLiesInPsum) {
  const BufferId p = filled_psum("p", {128, 8}), q = filled_psum("q", {128, 8});
  b.add(block(b.sbuf("sum", kF32, {128, 8}), 128, 8), block(p, 128, 8), block(q, 128, 8));
  expect_violation(b.finish(), "add q to sum", "q", "at most one input from PSUM");
}

TEST_F(Rule, GpSimdDoesNotReachPsum) {
  const BufferId psum = filled_psum("psum", {128, 8});
  b.copy(block(b.sbuf("tile", kF32, {128, 8}), 128, 8), block(psum, 128, 8));
  Program program = b.finish();
  auto& copy = std::get<Instruction>(program.body.back());
  std::get<TensorCopy>(copy.operation).engine = Engine::kGpSimd;
  expect_violation(program, "copy psum to tile", "psum", "GpSimd does not reach PSUM");
  std::get<TensorCopy>(copy.operation).engine = Engine::kTensor;
  expect_violation(program, "copy psum to tile", "tile", "Tensor engine does not copy");
}

TEST_F(Rule, TransposeShapesAgree) {
  const BufferId x = filled("x", kF32, {128, 64});
  b.transpose(block(b.psum("psum", {128, 128}, 1), 128, 64), block(x, 128, 64));
  expect_violation(b.finish(), "transpose x", "psum", "expected the transpose of 128 x 64");
}

TEST_F(Rule, TransposeKeepsTheDtype) {
  const BufferId x = filled("x", kBF16, {64, 128});
  b.transpose(block(b.psum("psum", {128, 128}, 1), 128, 64), block(x, 64, 128));
  expect_violation(b.finish(), "transpose x", "psum", "keeps the dtype");
}

TEST_F(Rule, ElementwiseShapesAgree) {
  const BufferId x = filled("x", kBF16, {128, 64});
  b.silu(block(b.sbuf("y", kBF16, {128, 64}), 128, 32), block(x, 128, 64));
  expect_violation(b.finish(), "silu x", "y", "dst is [128, 32], src is [128, 64]");
}

TEST_F(Rule, SlicesStayInside) {
  const BufferId x = b.input("x", kBF16, {300, 8});
  b.loop("m", 384, 128, [&](const Tile& m) {
    b.load(block(b.sbuf("tile", kBF16, {128, 8}), 128, 8), at(x, {m, all(8)}));
  });
  expect_violation(b.finish(), "load tile", "x",
                   "[256, 384) is outside dimension 0 of x, which has 300 (at m=2)");
}

TEST_F(Rule, AtMost128Partitions) {
  b.zero(block(b.sbuf("wide", kBF16, {256, 8}), 128, 8));
  expect_violation(b.finish(), "", "wide", "256 partitions, at most 128");
}

TEST_F(Rule, StartPartitionFitsTheNumberOfPartitions) {
  const BufferId x = filled("x", kBF16, {128, 8});
  const auto zero_from = [&](int64_t start, int64_t partitions) {
    b.zero(at(x, {{start, {partitions}}, all(8)}));
  };
  for (const int64_t start : {0, 32, 64, 96}) zero_from(start, 32);
  zero_from(64, 64);
  EXPECT_TRUE(check(b.finish(), {}).ok());
  for (const auto& [start, partitions] : {std::pair{16, 32}, {32, 64}, {32, 65}}) {
    Builder fresh("start");
    const BufferId y = fresh.sbuf("y", kBF16, {128, 8});
    fresh.zero(at(y, {{start, {partitions}}, all(8)}));
    expect_violation(fresh.finish(), "zero y", "y", "start at partition");
  }
}

TEST_F(Rule, ReadsComeAfterWrites) {
  const BufferId x = b.sbuf("x", kBF16, {128, 8}), y = b.sbuf("y", kBF16, {128, 8});
  b.copy(block(y, 128, 8), block(x, 128, 8));
  expect_violation(b.finish(), "copy x to y", "x", "read before anything is written");
}

TEST_F(Rule, NewInstanceHoldsNothing) {
  const BufferId x = filled("x", kBF16, {128, 8});
  b.allocate(x);
  b.copy(block(b.sbuf("y", kBF16, {128, 8}), 128, 8), block(x, 128, 8));
  expect_violation(b.finish(), "copy x to y", "x", "read before anything is written");
}

TEST_F(Rule, ASumStaysInOneInstance) {
  const BufferId u = filled("u", kBF16, {128, 8}), x = filled("x", kBF16, {128, 8});
  b.loop("k", 4, 1, [&](const Tile& k) {
    const BufferId psum = b.psum("psum", {128, 8}, 1);
    b.matmul(block(psum, 8, 8), block(u, 128, 8), block(x, 128, 8), {k});
  });
  expect_violation(b.finish(), "matmul u x x", "psum", "summed over loop 0");
}

TEST_F(Rule, AddsOnlyToWhatIsWritten) {
  const BufferId u = filled("u", kBF16, {128, 8}), x = filled("x", kBF16, {128, 8});
  const BufferId psum = b.psum("psum", {128, 8}, 1);
  b.matmul_adding(block(psum, 8, 8), block(u, 128, 8), block(x, 128, 8));
  expect_violation(b.finish(), "matmul u x x", "psum", "added to before anything is written");
}

// --- Programs whose numbers are meaningless: they give one message, and the checker does not walk
// them. ---

Program small_program() {
  Builder b("small");
  const BufferId x = b.input("x", kBF16, {256, 8});
  b.loop("m", 256, 128, [&](const Tile& m) {
    const BufferId tile = b.sbuf("tile", kBF16, {128, 8});
    b.load(at(tile, {upto(m), all(8)}), at(x, {m, all(8)}));
  });
  return b.finish();
}

// Partition p gets the rows 2 p and 2 p + 1 of x.
Program viewing_program() {
  Builder b("viewing");
  const BufferId x = b.input("x", kBF16, {256, 8}), y = b.output("y", kBF16, {128, 16});
  const BufferId view = b.view("x_view", x, {128, 2, 8});
  const BufferId tile = b.sbuf("tile", kBF16, {128, 2, 8});
  b.load(at(tile, {all(128), all(2), all(8)}), at(view, {all(128), all(2), all(8)}));
  b.store(at(y, {all(128), all(8)}), at(tile, {all(128), one(1), all(8)}));
  return b.finish();
}

TEST(Structure, AViewMustBeOfAnInputOfTheSameSize) {
  const CheckReport good = check(viewing_program(), {});
  EXPECT_TRUE(good.ok()) << good.violations.front().message;
  const std::pair<std::function<void(Buffer&)>, const char*> breaks[] = {
      {[](Buffer& view) {
         view.shape = {128, 2, 9};
       },
       "a view of 2048 elements of BF16 like x"},
      {[](Buffer& view) { view.dtype = DType::kF32; }, "a view of 2048 elements of BF16 like x"},
      {[](Buffer& view) { view.view_of = 1; }, "a view of an input, found one of buffer 1"},
      {[](Buffer& view) { view.view_of = 2; }, "a view of an input, found one of buffer 2"},
      {[](Buffer& view) { view.view_of = 99; }, "a view of an input, found one of buffer 99"}};
  for (const auto& [break_it, part] : breaks) {
    Program program = viewing_program();
    break_it(program.buffers[2]);
    const CheckReport report = check(program, {});
    ASSERT_EQ(report.violations.size(), 1u) << part;
    EXPECT_TRUE(contains(report.violations[0].message, part)) << report.violations[0].message;
  }
}

// A matrix of 300 rows has two whole tiles.
TEST(Structure, RowTilesMustBeTheWholeTilesOfAMatrix) {
  const auto program = [] {
    Builder b("tiled");
    const BufferId x = b.input("x", kBF16, {300, 8}), y = b.output("y", kBF16, {128, 8});
    const BufferId tiles = b.row_tiles("x_tiles", x);
    const BufferId tile = b.sbuf("tile", kBF16, {128, 8});
    b.load(at(tile, {all(128), all(8)}), at(tiles, {all(128), one(1), all(8)}));
    b.store(at(y, {all(128), all(8)}), at(tile, {all(128), all(8)}));
    return b.finish();
  };
  const CheckReport good = check(program(), {});
  EXPECT_TRUE(good.ok()) << good.violations.front().message;
  const std::pair<Shape, const char*> breaks[] = {
      {{128, 3, 8}, "row tiles [rows, tiles, columns] of the matrix x [300, 8], found [128, 3, 8]"},
      {{128, 1, 8}, "found [128, 1, 8]"},
      {{128, 2, 4}, "found [128, 2, 4]"},
      {{128, 16}, "found [128, 16]"}};
  for (const auto& [shape, part] : breaks) {
    Program broken = program();
    broken.buffers[2].shape = shape;
    const CheckReport report = check(broken, {});
    ASSERT_EQ(report.violations.size(), 1u) << part;
    EXPECT_TRUE(contains(report.violations[0].message, part)) << report.violations[0].message;
  }
}

TEST(Structure, OnlyAViewHasRowTiles) {
  Builder b("tiled");
  b.input("x", kBF16, {300, 8});
  Program program = b.finish();
  program.buffers[0].row_tiles = true;
  EXPECT_EQ(check_structure(program).error().message,
            "buffer x: expected a view, because it has row tiles");
}

// An input of three matrices of 300 rows: each has two whole tiles.
TEST(Structure, RowTilesMustBeThoseOfEachMatrix) {
  const auto program = [] {
    Builder b("tiled");
    const BufferId x = b.input("x", kBF16, {900, 8}), y = b.output("y", kBF16, {128, 8});
    const BufferId tiles = b.matrix_row_tiles("x_tiles", x, 300);
    const BufferId tile = b.sbuf("tile", kBF16, {128, 8});
    b.load(at(tile, {all(128), all(8)}), at(tiles, {one(2), all(128), one(1), all(8)}));
    b.store(at(y, {all(128), all(8)}), at(tile, {all(128), all(8)}));
    return b.finish();
  };
  const CheckReport good = check(program(), {});
  EXPECT_TRUE(good.ok()) << good.violations.front().message;
  for (const Shape& shape : {Shape{3, 128, 3, 8}, Shape{2, 128, 2, 8}, Shape{3, 128, 2, 4}}) {
    Program broken = program();
    broken.buffers[2].shape = shape;
    const CheckReport report = check(broken, {});
    ASSERT_EQ(report.violations.size(), 1u) << shape_string(shape);
    EXPECT_TRUE(contains(report.violations[0].message, "expected row tiles"))
        << report.violations[0].message;
  }
}

// A load whose place a number in SBUF tells.
class IndexRule : public Rule {
 protected:
  void load_indexed(BufferId number, const Access& dst) {
    b.load(dst, at_index(matrices_, block(number, 1, 1), {all(128), all(8)}));
  }
  BufferId x_ = b.input("x", kBF16, {512, 8});
  BufferId matrices_ = b.matrices("x_matrices", x_, 128);
};

TEST_F(IndexRule, AcceptsAnInt32InSbuf) {
  load_indexed(filled("number", DType::kI32, {1, 1}),
               block(b.sbuf("tile", kBF16, {128, 8}), 128, 8));
  const CheckReport report = check(b.finish(), {});
  EXPECT_TRUE(report.ok()) << report.violations.front().message;
}

TEST_F(IndexRule, AnIndexIsAnInt32) {
  load_indexed(filled("number", kF32, {1, 1}), block(b.sbuf("tile", kBF16, {128, 8}), 128, 8));
  expect_violation(b.finish(), "load tile", "number", "an index is an int32 in SBUF");
}

TEST_F(IndexRule, AnIndexLiesInSbuf) {
  const BufferId number = b.input("number", DType::kI32, {1, 1});
  load_indexed(number, block(b.sbuf("tile", kBF16, {128, 8}), 128, 8));
  expect_violation(b.finish(), "load tile", "number", "an index is an int32 in SBUF");
}

TEST_F(IndexRule, AnIndexIsOneElement) {
  const BufferId numbers = filled("numbers", DType::kI32, {1, 4});
  b.load(block(b.sbuf("tile", kBF16, {128, 8}), 128, 8),
         at_index(matrices_, block(numbers, 1, 4), {all(128), all(8)}));
  expect_violation(b.finish(), "load tile", "numbers", "1 x 4, expected 1 x 1");
}

TEST_F(IndexRule, AnIndexIsWrittenBefore) {
  const BufferId number = b.sbuf("number", DType::kI32, {1, 1});
  load_indexed(number, block(b.sbuf("tile", kBF16, {128, 8}), 128, 8));
  expect_violation(b.finish(), "load tile", "number", "read before anything is written");
}

TEST_F(IndexRule, OnlyTheSourceOfALoadHasAnIndex) {
  const BufferId number = filled("number", DType::kI32, {1, 1});
  const BufferId tile = filled("tile", kBF16, {1, 128});
  const BufferId y = b.output("y", kBF16, {4, 128});
  b.store(at_index(y, block(number, 1, 1), {all(128)}), at(tile, {one(0), all(128)}));
  expect_violation(b.finish(), "", "", "depends on an index, which only the source of a load may");
}

TEST_F(IndexRule, AnIndexIsForASingleElement) {
  const BufferId number = filled("number", DType::kI32, {1, 1});
  Access two = at_index(matrices_, block(number, 1, 1), {all(128), all(8)});
  two.slices.front() = all(2);
  b.load(at(b.sbuf("tile", kBF16, {2, 128, 8}), {all(2), all(128), all(8)}), two);
  expect_violation(b.finish(), "", "", "one index for a single element of dimension 0");
}

TEST_F(Rule, AFactorPerPartitionIsOneFp32) {
  const BufferId x = filled("x", kF32, {32, 8}), narrow = filled("narrow", kBF16, {32, 1});
  b.scale_add(block(x, 32, 8), block(x, 32, 8), block(narrow, 32, 1), block(x, 32, 8));
  expect_violation(b.finish(), "add x times narrow to x", "narrow",
                   "a factor per partition is fp32");
}

TEST_F(Rule, ThereIsAFactorForEveryPartition) {
  const BufferId x = filled("x", kF32, {32, 8}), scale = filled("scale", kF32, {16, 1});
  b.scale_add(block(x, 32, 8), block(x, 32, 8), block(scale, 16, 1), block(x, 32, 8));
  expect_violation(b.finish(), "add x times scale to x", "scale", "16 x 1, expected 32 x 1");
}

TEST_F(Rule, AScaledSumHasOneInputInPsum) {
  const BufferId x = filled_psum("x", {32, 8}), scale = filled("scale", kF32, {32, 1});
  b.scale_add(block(filled("y", kF32, {32, 8}), 32, 8), block(x, 32, 8), block(scale, 32, 1),
              block(x, 32, 8));
  expect_violation(b.finish(), "add x times scale to y", "x", "at most one input from PSUM");
}

TEST_F(Rule, AViewMustNotBeWritten) {
  const BufferId view = b.view("x_view", b.input("x", kBF16, {256, 8}), {128, 16});
  b.store(at(view, {all(128), all(16)}), block(filled("tile", kBF16, {128, 16}), 128, 16));
  expect_violation(b.finish(), "store x_view", "x_view", "only read");
}

TEST(Structure, AMatmulThatAlwaysAddsHasNoLoopsOfItsSum) {
  Builder b("adds");
  const BufferId tile = b.sbuf("tile", kBF16, {128, 8}), psum = b.psum("psum", {128, 8}, 1);
  const auto block = [](BufferId id) { return at(id, {all(8), all(8)}); };
  b.zero(block(tile));
  b.zero(block(psum));
  b.loop("k", 4, 1, [&](const Tile&) { b.matmul_adding(block(psum), block(tile), block(tile)); });
  Program program = b.finish();
  EXPECT_TRUE(check(program, {}).ok());
  auto& loop = std::get<Loop>(program.body.back());
  auto& matmul = std::get<NcMatmul>(std::get<Instruction>(loop.body[0]).operation);
  matmul.sum_loops = {loop.id};
  const CheckReport report = check(program, {});
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_TRUE(contains(report.violations[0].message, "it always adds"));
}

Loop& loop_of(Program& program) { return std::get<Loop>(program.body[0]); }
DmaCopy& dma_of(Program& program) {
  return std::get<DmaCopy>(std::get<Instruction>(loop_of(program).body[1]).operation);
}

TEST(Structure, MalformedProgramsAreNamed) {
  const std::pair<std::function<void(Program&)>, const char*> breaks[] = {
      {[](Program& p) { loop_of(p).id = 7; }, "loop m"},
      {[](Program& p) { loop_of(p).step = 0; }, "positive count and step"},
      {[](Program& p) { loop_of(p).max = -1; }, "positive count and step"},
      {[](Program& p) { dma_of(p).src.buffer = 9; }, "buffer number below 2, found 9"},
      {[](Program& p) { dma_of(p).src.buffer = -1; }, "\"load tile\""},
      {[](Program& p) { dma_of(p).dst.slices.pop_back(); }, "expected 2 slices of tile, found 1"},
      {[](Program& p) {
         dma_of(p).src.slices[0].start.terms = {{3, 1}};
       },
       "loop 3 does not enclose"},
      {[](Program& p) { loop_of(p).body.erase(loop_of(p).body.begin()); }, "not allocated here"},
      {[](Program& p) {
         p.buffers[1].shape = {128, 0};
       },
       "positive sizes"},
      {[](Program& p) { p.buffers[1].shape = {}; }, "dimensions"},
      {[](Program& p) { p.buffers[1].dtype = DType::kI8; }, "BF16, F32 or I32, found I8"},
      {[](Program& p) { p.buffers[1].copies = 0; }, "at least one copy"},
      {[](Program& p) { std::get<Allocate>(loop_of(p).body[0]).buffer = 0; }, "allocate x"},
  };
  EXPECT_TRUE(check(small_program(), {}).ok());
  for (const auto& [break_it, part] : breaks) {
    Program program = small_program();
    break_it(program);
    const CheckReport report = check(program, {});
    ASSERT_EQ(report.violations.size(), 1u) << part;
    EXPECT_TRUE(contains(report.violations[0].message, part)) << report.violations[0].message;
  }
}

}  // namespace
}  // namespace neuronmm::tile
