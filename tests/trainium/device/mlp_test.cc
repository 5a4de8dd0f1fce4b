// MLPs as tile programs: their values against fp64, and what is refused.

#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "trainium/device/mlp_program.h"
#include "trainium/device/mlp_weights.h"
#include "trainium/devices.h"
#include "trainium/kernels/oracle.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::device {
namespace {

using kernels::Bounded;
using kernels::Rounding;

// A random linear layer with its weights as a checkpoint has them, in bf16.
class RandomLinear {
 public:
  RandomLinear(int64_t in, int64_t out, int64_t rank, std::mt19937& random) {
    if (rank == 0) {
      weight.w_t = add(out, in, random);
    } else {
      weight.u_t = add(rank, in, random);
      weight.v_t = add(out, rank, random);
    }
  }
  // [in, out]
  static Matrix transposed(const TensorView& view) {
    Matrix matrix(view.columns(), view.rows());
    std::vector<float> values(static_cast<size_t>(view.size()));
    to_floats(view, 0, view.size(), values.data());
    for (int64_t i = 0; i < view.rows(); ++i) {
      for (int64_t j = 0; j < view.columns(); ++j) {
        matrix.row(j)[i] = values[static_cast<size_t>(i * view.columns() + j)];
      }
    }
    return matrix;
  }

  ops::LinearWeight weight;

 private:
  TensorView add(int64_t rows, int64_t columns, std::mt19937& random) {
    const double scale = 1 / std::sqrt(static_cast<double>(columns));
    const Matrix values = kernels::random_matrix(rows, columns, scale, DType::kBF16, random);
    std::vector<std::byte>& bytes = storage_[rows * 100000 + columns];
    append_rounded(DType::kBF16, values.data(), rows * columns, bytes);
    return {DType::kBF16, {rows, columns}, bytes.data()};
  }
  std::map<int64_t, std::vector<std::byte>> storage_;
};

struct RandomMlp {
  RandomMlp(int64_t hidden, int64_t inner, std::array<int64_t, 3> ranks, std::mt19937& random)
      : gate(hidden, inner, ranks[0], random),
        up(hidden, inner, ranks[1], random),
        down(inner, hidden, ranks[2], random),
        weight{gate.weight, up.weight, down.weight} {}
  RandomLinear gate, up, down;
  ops::MlpWeight weight;
};

Bounded linear(const Bounded& x, const ops::LinearWeight& weight, const kernels::Tiling& tiling,
               const std::string& part, DType result) {
  const auto blocks = [&](int64_t size, const std::string& name) {
    return tile::ceil_div(size, tiling[part + name] * 128);
  };
  const Rounding first{DType::kF32, DType::kBF16, blocks(x.columns, "BK")};
  if (!weight.low_rank()) {
    const Rounding only{DType::kF32, result, first.blocks};
    return multiply(x, RandomLinear::transposed(weight.w_t), only);
  }
  const Rounding second{DType::kF32, result, blocks(weight.rank(), "Br")};
  return multiply(multiply(x, RandomLinear::transposed(weight.u_t), first),
                  RandomLinear::transposed(weight.v_t), second);
}

Bounded expected(const RandomMlp& mlp, const Matrix& x, const kernels::Tiling& tiling) {
  Bounded rounded(x);  // as the kernel's operand
  for (double& value : rounded.value) {
    value = static_cast<double>(bf16::from_float(static_cast<float>(value)).to_float());
  }
  const Bounded gate = linear(rounded, mlp.weight.gate, tiling, "up.", DType::kF32);
  const Bounded up = linear(rounded, mlp.weight.up, tiling, "up.", DType::kF32);
  const Bounded h = gated(gate, up, DType::kF32, DType::kBF16);
  return linear(h, mlp.weight.down, tiling, "down.", DType::kBF16);
}

struct Case {
  int64_t tokens, hidden, inner;
  std::array<int64_t, 3> ranks;
};
const Case kCases[] = {{1, 96, 200, {0, 0, 0}},     {5, 200, 330, {0, 0, 0}},
                       {130, 130, 260, {0, 0, 0}},  {1, 96, 200, {64, 64, 64}},
                       {5, 200, 330, {40, 140, 9}}, {130, 130, 260, {130, 130, 130}}};

TEST(DeviceMlp, ValuesAreWithinTheirBound) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("seed {}: {} tokens, {} x {}, ranks {} {} {}", seed, c.tokens,
                             c.hidden, c.inner, c.ranks[0], c.ranks[1], c.ranks[2]));
    const RandomMlp mlp(c.hidden, c.inner, c.ranks, random);
    const MlpShape shape = mlp_shape(mlp.weight).value();
    MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
    const MlpProgram& program = **programs.find(shape, c.tokens);
    EXPECT_EQ(program.kernel->name, c.ranks[0] > 0 ? "mlp" : "dense_mlp");
    const Matrix x = kernels::random_matrix(c.tokens, c.hidden, 1.0, DType::kF32, random);
    Matrix y(c.tokens, c.hidden);
    MlpWeights(mlp.weight, shape).apply(program, x.view(), y.view());

    const Bounded wanted = expected(mlp, x, program.tiling);
    double squared_error = 0, squared = 0;
    for (size_t i = 0; i < wanted.value.size(); ++i) {
      const double error = std::fabs(static_cast<double>(y.data()[i]) - wanted.value[i]);
      ASSERT_LE(error, wanted.error[i]) << "element " << i;
      squared_error += error * error;
      squared += wanted.value[i] * wanted.value[i];
    }
    EXPECT_LE(std::sqrt(squared_error / squared), 1.5 * kernels::kBf16);
  }
}

// Beside a dense matrix low-rank ones are multiplied: the dense kernel with their products.
TEST(DeviceMlp, ADenseMatrixAmongLowRankOnesMakesAllDense) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const int64_t hidden = 96, inner = 200;
  const RandomMlp mixed(hidden, inner, {40, 0, 24}, random);
  RandomMlp dense(hidden, inner, {0, 0, 0}, random);
  dense.weight.up = mixed.weight.up;
  std::vector<std::byte> gate, down;
  for (auto [weight, whole, bytes] : {std::tuple(&mixed.weight.gate, &dense.weight.gate, &gate),
                                      std::tuple(&mixed.weight.down, &dense.weight.down, &down)}) {
    const int64_t in = weight->in_features(), out = weight->out_features(), rank = weight->rank();
    const Matrix u = RandomLinear::transposed(weight->u_t),
                 v = RandomLinear::transposed(weight->v_t);
    for (int64_t j = 0; j < out; ++j) {
      for (int64_t i = 0; i < in; ++i) {
        float sum = 0;  // in the order of the ranks, as documented
        for (int64_t k = 0; k < rank; ++k) sum = std::fma(v.row(k)[j], u.row(i)[k], sum);
        append_rounded(DType::kBF16, &sum, 1, *bytes);
      }
    }
    whole->w_t = TensorView{DType::kBF16, {out, in}, bytes->data()};
  }
  const MlpShape shape = mlp_shape(mixed.weight).value();
  EXPECT_EQ(shape.rank, 0);
  MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
  const MlpProgram& program = **programs.find(shape, 5);
  EXPECT_EQ(program.kernel->name, "dense_mlp");
  const Matrix x = kernels::random_matrix(5, hidden, 1.0, DType::kF32, random);
  Matrix y(5, hidden), wanted(5, hidden);
  MlpWeights(mixed.weight, shape).apply(program, x.view(), y.view());
  MlpWeights(dense.weight, shape).apply(program, x.view(), wanted.view());
  // Where fused and separate rounding of a sum lead to different bf16, a weight differs by 2^-8 of
  // itself; of few weights, a random one of `inner` in a sum.
  double squared_error = 0, squared = 0;
  for (int64_t i = 0; i < 5 * hidden; ++i) {
    squared_error += std::pow(y.data()[i] - wanted.data()[i], 2);
    squared += std::pow(wanted.data()[i], 2);
  }
  EXPECT_LE(std::sqrt(squared_error / squared), kernels::kBf16);
}

// Rows are interpreted in parts: the same bits in one part and in two, and next to other rows.
TEST(DeviceMlp, RowsDoNotDependOnOneAnother) {
  std::mt19937 random(1);
  for (const int64_t rank : {0, 70}) {
    const RandomMlp mlp(140, 260, {rank, rank, rank}, random);
    const MlpShape shape = mlp_shape(mlp.weight).value();
    MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
    const MlpProgram& program = **programs.find(shape, 150);
    const MlpWeights weights(mlp.weight, shape);
    const Matrix x = kernels::random_matrix(150, 140, 1.0, DType::kF32, random);
    const int threads = num_threads();
    std::vector<Matrix> results;
    for (const int n : {1, 2, 5}) {
      set_num_threads(n);
      results.emplace_back(150, 140);
      weights.apply(program, x.view(), results.back().view());
    }
    set_num_threads(threads);
    for (const Matrix& other : results) {
      EXPECT_TRUE(std::equal(other.data(), other.data() + 150 * 140, results[0].data()));
    }
  }
}

TEST(DeviceMlp, TimeIsTheTimingModels) {
  MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
  for (const MlpShape& shape : {MlpShape{384, 1024, 0}, MlpShape{384, 1024, 128}}) {
    const MlpProgram* const program = programs.find(shape, 33).value();
    const auto tiles = program->for_rows(33).value();
    EXPECT_EQ(program->seconds, simulator::simulate(tiles, simulator::kTrn1)->summary.total_time);
    EXPECT_EQ(programs.find(shape, 33).value(), program);  // remembered
    // Never below what its weights take over DMA.
    const double weights = 2.0 * 3 * (shape.rank > 0 ? 128 * (384 + 1024) : 384 * 1024);
    EXPECT_GT(program->seconds, weights / 272e9);
  }
}

TEST(DeviceMlp, WhatNoKernelTakesIsRefused) {
  std::mt19937 random(1);
  RandomMlp biased(64, 96, {0, 0, 0}, random);
  biased.weight.up.bias = biased.weight.up.w_t;
  EXPECT_NE(mlp_shape(biased.weight).error().message.find("up has one"), std::string::npos);

  const Matrix map = kernels::random_matrix(64, 64, 1.0, DType::kF32, random);
  const TensorView map_t = {DType::kF32, {32, 32}, reinterpret_cast<const std::byte*>(map.data())};
  std::vector<int32_t> index(32);
  std::iota(index.begin(), index.end(), 0);
  for (int which = 0; which < 3; ++which) {
    RandomMlp pivoted(64, 96, {0, 0, 0}, random);
    ops::MlpWeight& weight = pivoted.weight;
    ops::Pivots& pivots = which == 0 ? weight.in : which == 1 ? weight.up.in : weight.down.out;
    pivots = ops::Pivots{index, map_t};
    EXPECT_NE(mlp_shape(weight).error().message.find("pivots"), std::string::npos) << which;
  }

  MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
  const auto too_large = programs.find({64, int64_t{1} << 21, 0}, 1);
  ASSERT_FALSE(too_large.ok());
  EXPECT_NE(too_large.error().message.find("intermediate size 2097152"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::device
