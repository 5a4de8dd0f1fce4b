// Compares the interpreter's values with reference loop nests, and checks its faults.

#include "trainium/simulator/interpreter.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "trainium/kernels/registry.h"
#include "trainium/tile/builder.h"

namespace neuronmm::simulator {
namespace {

using kernels::Kernel;
using kernels::KernelOptions;
using kernels::KernelShape;
using tile::all;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::Program;
using tile::Tile;
using tile::upto;

float rounded(float value) { return bf16::from_float(value).to_float(); }

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Matrix random_matrix(int64_t rows, int64_t columns, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Matrix matrix(rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) matrix.data()[i] = rounded(normal(random));
  return matrix;
}

ConstMatrixView view(const Matrix& matrix) { return matrix.view(); }

// The view of x is [128, 3, 4], so partition p has the three rows of x from 3 p on. This also holds
// if the input is read in place.
TEST(Interpreter, AViewHasTheElementsOfItsInput) {
  Builder b("viewing");
  const BufferId x = b.input("x", DType::kBF16, {384, 4});
  const BufferId y = b.output("y", DType::kBF16, {128, 4});
  const BufferId rows = b.view("x_view", x, {128, 3, 4});
  const BufferId tile = b.sbuf("tile", DType::kBF16, {128, 4});
  b.load(at(tile, {all(128), all(4)}), at(rows, {all(128), tile::one(1), all(4)}));
  b.store(at(y, {all(128), all(4)}), at(tile, {all(128), all(4)}));
  const Program program = b.finish();
  std::mt19937 random(5);
  const Matrix values = random_matrix(384, 4, random);
  for (const bool in_place : {false, true}) {
    Inputs inputs;
    inputs.emplace("x", Input{values.view(), in_place});
    const auto result = interpret(program, inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (int64_t p = 0; p < 128; ++p) {
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(result->outputs.at("y").row(p)[i], values.row(3 * p + 1)[i]);
      }
    }
  }
}

// The views of three matrices of 300 rows: an index picks the matrix. Partition p of a matrix's row
// tiles has its rows p and 128 + p.
TEST(Interpreter, AnIndexPicksAMatrix) {
  Builder b("picking");
  const BufferId x = b.input("x", DType::kBF16, {900, 4});
  const BufferId numbers = b.input("numbers", DType::kI32, {1, 2});
  const BufferId y = b.output("y", DType::kBF16, {600, 4});
  const BufferId tiles = b.matrix_row_tiles("x_tiles", x, 300);
  const BufferId matrices = b.matrices("x_matrices", x, 300);
  const BufferId number = b.sbuf("number", DType::kI32, {1, 2});
  b.load(at(number, {all(1), all(2)}), at(numbers, {all(1), all(2)}));
  b.loop("d", 2, 1, [&](const Tile& d) {
    const tile::Access index = at(number, {all(1), {d.start, {.max = 1}}});
    const BufferId block = b.sbuf("block", DType::kBF16, {128, 3, 4}, 2);
    b.load(at(block, {all(128), {0, {.max = 2}}, all(4)}),
           tile::at_index(tiles, index, {all(128), all(2), all(4)}));
    b.load(at(block, {all(44), tile::one(2), all(4)}),
           tile::at_index(matrices, index, {{256, {.max = 44}}, all(4)}));
    b.loop("j", 2, 1, [&](const Tile& j) {
      b.store(at(y, {{d.start * 300 + j.start * 128, {.max = 128}}, all(4)}),
              at(block, {all(128), tile::one(j.start), all(4)}));
    });
    b.store(at(y, {{d.start * 300 + 256, {.max = 44}}, all(4)}),
            at(block, {all(44), tile::one(2), all(4)}));
  });
  const Program program = b.finish();
  std::mt19937 random(5);
  const Matrix values = random_matrix(900, 4, random);
  Matrix chosen(1, 2);
  chosen.row(0)[0] = 2, chosen.row(0)[1] = 0;
  Inputs inputs;
  inputs.emplace("x", values.view());
  inputs.emplace("numbers", chosen.view());
  const auto result = interpret(program, inputs);
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (int64_t i = 0; i < 600; ++i) {
    const int64_t from = i < 300 ? 600 + i : i - 300;
    for (int64_t j = 0; j < 4; ++j) {
      ASSERT_EQ(result->outputs.at("y").row(i)[j], values.row(from)[j]) << i;
    }
  }
}

TEST(Interpreter, AScaledSumHasAFactorPerPartition) {
  Builder b("scaling");
  const BufferId x = b.input("x", DType::kF32, {32, 6}), s = b.input("s", DType::kF32, {32, 2});
  const BufferId y = b.output("y", DType::kBF16, {32, 6});
  const BufferId tile = b.sbuf("tile", DType::kF32, {32, 6}),
                 scale = b.sbuf("scale", DType::kF32, {32, 2});
  const BufferId sum = b.sbuf("sum", DType::kBF16, {32, 6});
  b.load(at(tile, {all(32), all(6)}), at(x, {all(32), all(6)}));
  b.load(at(scale, {all(32), all(2)}), at(s, {all(32), all(2)}));
  b.zero(at(sum, {all(32), all(6)}));
  b.loop("d", 2, 1, [&](const Tile& d) {
    b.scale_add(at(sum, {all(32), all(6)}), at(tile, {all(32), all(6)}),
                at(scale, {all(32), {d.start, {.max = 1}}}), at(sum, {all(32), all(6)}));
  });
  b.store(at(y, {all(32), all(6)}), at(sum, {all(32), all(6)}));
  std::mt19937 random(6);
  const Matrix values = random_matrix(32, 6, random), factors = random_matrix(32, 2, random);
  Inputs inputs;
  inputs.emplace("x", values.view());
  inputs.emplace("s", factors.view());
  const auto result = interpret(b.finish(), inputs);
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (int64_t i = 0; i < 32; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      const float first = rounded(values.row(i)[j] * factors.row(i)[0] + 0.0f);
      EXPECT_EQ(result->outputs.at("y").row(i)[j],
                rounded(values.row(i)[j] * factors.row(i)[1] + first));
    }
  }
}

// The row tiles of 300 rows are [128, 2, 4]. Partition p has the rows p and 128 + p.
TEST(Interpreter, RowTilesHaveTheRowsInTheirOrder) {
  Builder b("tiled");
  const BufferId x = b.input("x", DType::kBF16, {300, 4});
  const BufferId y = b.output("y", DType::kBF16, {256, 3});
  const BufferId tiles = b.row_tiles("x_tiles", x);
  const BufferId block = b.sbuf("block", DType::kBF16, {128, 2, 3});
  b.load(at(block, {all(128), all(2), all(3)}), at(tiles, {all(128), all(2), {1, {.max = 3}}}));
  b.loop("j", 2, 1, [&](const Tile& j) {
    b.store(at(y, {{j.start * 128, {.max = 128}}, all(3)}),
            at(block, {all(128), tile::one(j.start), all(3)}));
  });
  const Program program = b.finish();
  std::mt19937 random(5);
  const Matrix values = random_matrix(300, 4, random);
  for (const bool in_place : {false, true}) {
    Inputs inputs;
    inputs.emplace("x", Input{values.view(), in_place});
    const auto result = interpret(program, inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (int64_t row = 0; row < 256; ++row) {
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(result->outputs.at("y").row(row)[i], values.row(row)[i + 1]);
      }
    }
  }
}

// Computes as the released kernels do. A block of BK has fp32 sums of 128 products at a time. The
// sums of blocks are added in bf16.
Matrix reference_blocks(const Matrix& x, const Matrix& w, int64_t BK) {
  Matrix y(x.rows(), w.columns());
  for (int64_t i = 0; i < x.rows(); ++i) {
    for (int64_t j = 0; j < w.columns(); ++j) {
      float sum = 0.0f;
      for (int64_t block = 0; block < x.columns(); block += BK) {
        const int64_t end = std::min(block + BK, x.columns());
        float psum = 0.0f;
        for (int64_t tile = block; tile < end; tile += 128) {
          float products = 0.0f;
          for (int64_t k = tile; k < std::min(tile + 128, end); ++k) {
            products += x.row(i)[k] * w.row(k)[j];  // Exact: the product of two bf16.
          }
          psum += products;
        }
        sum = rounded(sum + psum);
      }
      y.row(i)[j] = sum;
    }
  }
  return y;
}

TEST(Numerics, Bf16SumsEqualTheReferenceBitForBit) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const KernelShape shape{150, 700, 300, 530};
  const Matrix x = random_matrix(shape.M, shape.K, random),
               u = random_matrix(shape.K, shape.r, random),
               v = random_matrix(shape.r, shape.N, random);
  const Kernel& kernel = *kernels::find_kernel("xuv").value();
  const kernels::Tiling tiling = kernels::tiling_of(kernel, {{"BK", 2}, {"Br", 1}}).value();
  const Program program =
      kernels::make_program(kernel, shape, tiling, {.accumulate = DType::kBF16}).value();
  const auto result = interpret(program, {{"x", view(x)}, {"u", view(u)}, {"v", view(v)}});
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Matrix wanted = reference_blocks(reference_blocks(x, u, 256), v, 128);
  const Matrix& found = result->outputs.at("y");
  for (int64_t i = 0; i < shape.M * shape.N; ++i) {
    ASSERT_EQ(found.data()[i], wanted.data()[i]) << "element " << i;
  }
}

TEST(Numerics, InputsAreRoundedToTheirDtype) {
  Builder b("copy");
  const BufferId x = b.input("x", DType::kBF16, {1, 2}), y = b.output("y", DType::kBF16, {1, 2});
  const BufferId tile = b.sbuf("tile", DType::kBF16, {128, 2});
  b.load(at(tile, {all(1), all(2)}), at(x, {all(1), all(2)}));
  b.store(at(y, {all(1), all(2)}), at(tile, {all(1), all(2)}));
  Matrix input(1, 2);
  input.data()[0] = 1.0f + 0x1p-9f;  // Halfway to the next bf16 is 2^-8.
  input.data()[1] = std::numeric_limits<float>::quiet_NaN();
  const auto result = interpret(b.finish(), {{"x", view(input)}});
  ASSERT_TRUE(result.ok()) << result.error().message;  // A NaN in an input is a value.
  EXPECT_EQ(result->outputs.at("y").data()[0], 1.0f);
  EXPECT_TRUE(std::isnan(result->outputs.at("y").data()[1]));
}

TEST(Numerics, SiluAndTransposesAreThoseOfFp64) {
  Builder b("silu");
  const BufferId x = b.input("x", DType::kF32, {3, 5}), y = b.output("y", DType::kF32, {5, 3});
  const BufferId tile = b.sbuf("tile", DType::kF32, {128, 5}),
                 out = b.sbuf("out", DType::kF32, {128, 3});
  b.load(at(tile, {all(3), all(5)}), at(x, {all(3), all(5)}));
  const BufferId psum = b.psum("psum", {128, 3}, 1);
  b.transpose(at(psum, {all(5), all(3)}), at(tile, {all(3), all(5)}));
  b.silu(at(out, {all(5), all(3)}), at(psum, {all(5), all(3)}));
  b.store(at(y, {all(5), all(3)}), at(out, {all(5), all(3)}));
  std::mt19937 random(1);
  const Matrix input = random_matrix(3, 5, random);
  const auto result = interpret(b.finish(), {{"x", view(input)}});
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      const double value = static_cast<double>(input.row(i)[j]);
      EXPECT_NEAR(result->outputs.at("y").row(j)[i], value / (1.0 + std::exp(-value)), 1e-6);
    }
  }
}

// --- Faults ---

Fault fault_of(const Program& program, const Inputs& inputs, std::string& message) {
  Fault fault;
  const auto result = interpret(program, inputs, &fault);
  EXPECT_FALSE(result.ok());
  if (!result.ok()) message = result.error().message;
  return fault;
}

TEST(Faults, ReadingAPartlyUnwrittenTile) {
  Builder b("partial");
  const BufferId x = b.input("x", DType::kF32, {128, 8}), y = b.output("y", DType::kF32, {128, 8});
  const BufferId tile = b.sbuf("tile", DType::kF32, {128, 8});
  b.load(at(tile, {all(128), all(7)}), at(x, {all(128), all(7)}));
  b.store(at(y, {all(128), all(8)}), at(tile, {all(128), all(8)}));
  const Matrix input(128, 8);
  std::string message;
  const Fault fault = fault_of(b.finish(), {{"x", view(input)}}, message);
  EXPECT_EQ(fault.kind, Fault::Kind::kUnwritten);
  EXPECT_EQ(fault.instruction, "store y");
  EXPECT_EQ(fault.buffer, "tile");
  EXPECT_TRUE(contains(message, "src tile[0:128, 0:8]")) << message;
}

TEST(Faults, ReadingANewInstanceThatWasNotWritten) {
  Builder b("rotate");
  const BufferId x = b.input("x", DType::kF32, {128, 8}), y = b.output("y", DType::kF32, {128, 8});
  b.loop("m", 2, 1, [&](const Tile&) {
    const BufferId tile = b.sbuf("tile", DType::kF32, {128, 8});
    b.load(at(tile, {all(128), all(8)}), at(x, {all(128), all(8)}));
    b.allocate(tile);
    b.store(at(y, {all(128), all(8)}), at(tile, {all(128), all(8)}));
  });
  const Matrix input(128, 8);
  std::string message;
  EXPECT_EQ(fault_of(b.finish(), {{"x", view(input)}}, message).kind, Fault::Kind::kUnwritten);
}

TEST(Faults, AccumulatingOntoAnInstanceThatWasNotWritten) {
  Builder b("sum");
  const BufferId x = b.input("x", DType::kF32, {128, 8});
  b.loop("k", 2, 1, [&](const Tile& k) {
    const BufferId tile = b.sbuf("tile", DType::kF32, {128, 8});
    b.load(at(tile, {all(128), all(8)}), at(x, {all(128), all(8)}));
    const BufferId psum = b.psum("psum", {128, 8}, 2);
    b.matmul(at(psum, {all(8), all(8)}), at(tile, {all(128), all(8)}), at(tile, {all(128), all(8)}),
             {k});
  });
  const Matrix input(128, 8);
  std::string message;
  const Fault fault = fault_of(b.finish(), {{"x", view(input)}}, message);
  EXPECT_EQ(fault.kind, Fault::Kind::kUnwritten);
  EXPECT_EQ(fault.buffer, "psum");
}

TEST(Faults, OutOfBoundsShapesAndMissingOutput) {
  const Matrix input(128, 8);
  std::string message;
  Builder outside("outside");
  BufferId x = outside.input("x", DType::kF32, {128, 8});
  BufferId tile = outside.sbuf("tile", DType::kF32, {128, 8});
  outside.load(at(tile, {all(128), all(8)}), at(x, {all(128), {4, {8}}}));
  Fault fault = fault_of(outside.finish(), {{"x", view(input)}}, message);
  EXPECT_EQ(fault.kind, Fault::Kind::kOutOfBounds);
  EXPECT_TRUE(contains(message, "x[0:128, 4:12]")) << message;

  Builder shapes("shapes");
  x = shapes.input("x", DType::kF32, {128, 8});
  tile = shapes.sbuf("tile", DType::kF32, {128, 8});
  shapes.load(at(tile, {all(128), all(4)}), at(x, {all(128), all(8)}));
  fault = fault_of(shapes.finish(), {{"x", view(input)}}, message);
  EXPECT_EQ(fault.kind, Fault::Kind::kShapes);

  Builder silent("silent");
  silent.output("y", DType::kF32, {2, 2});
  fault = fault_of(silent.finish(), {}, message);
  EXPECT_EQ(fault.kind, Fault::Kind::kUnwritten);
  EXPECT_EQ(fault.buffer, "y");
}

TEST(Faults, AMalformedProgramIsNotRun) {
  Builder b("bad");
  const BufferId x = b.input("x", DType::kF32, {128, 8}), y = b.output("y", DType::kF32, {128, 8});
  b.store(at(y, {all(128), all(8)}), at(x, {all(128), all(8)}));
  Program program = b.finish();
  std::get<tile::DmaCopy>(std::get<tile::Instruction>(program.body[0]).operation).src.buffer = 12;
  std::string message;
  EXPECT_EQ(fault_of(program, {}, message).kind, Fault::Kind::kMalformed);
  EXPECT_TRUE(contains(message, "found 12")) << message;
}

TEST(Inputs, MissingAndMisshapenInputsAreNamed) {
  Builder b("in");
  const BufferId x = b.input("x", DType::kF32, {4, 8}), y = b.output("y", DType::kF32, {4, 8});
  b.store(at(y, {all(4), all(8)}), at(x, {all(4), all(8)}));
  const Program program = b.finish();
  const auto missing = interpret(program, {});
  ASSERT_FALSE(missing.ok());
  EXPECT_TRUE(contains(missing.error().message, "input x: not given"));
  const Matrix wrong(4, 7);
  const auto misshapen = interpret(program, {{"x", view(wrong)}});
  ASSERT_FALSE(misshapen.ok());
  EXPECT_TRUE(contains(misshapen.error().message, "expected 4 x 8, found 4 x 7"));
}

TEST(Inputs, AnInputInPlaceIsReadAndNeverWritten) {
  Builder b("in");
  const BufferId x = b.input("x", DType::kF32, {4, 8}), y = b.output("y", DType::kF32, {4, 8});
  b.store(at(y, {all(4), all(8)}), at(x, {all(4), all(8)}));
  Matrix input(4, 8);
  for (int64_t i = 0; i < 32; ++i) input.data()[i] = static_cast<float>(i);
  const Inputs inputs = {{"x", Input(view(input), true)}};
  const auto result = interpret(b.finish(), inputs);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(std::equal(input.data(), input.data() + 32, result->outputs.at("y").data()));

  Builder writer("writer");
  const BufferId to = writer.input("x", DType::kF32, {4, 8});
  writer.zero(at(to, {all(4), all(8)}));
  std::string message;
  EXPECT_EQ(fault_of(writer.finish(), inputs, message).kind, Fault::Kind::kMalformed);
  EXPECT_EQ(input.data()[31], 31);
}

}  // namespace
}  // namespace neuronmm::simulator
