// Checks MLPs as tile programs: their values against fp64, their time, and what is refused.

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "trainium/device/mlp_program.h"
#include "trainium/device/mlp_weights.h"
#include "trainium/device/roofline.h"
#include "trainium/devices.h"
#include "trainium/kernels/oracle.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::device {
namespace {

using kernels::Bounded;
using kernels::Rounding;

// Returns the matrix [in, out] of a checkpoint's weight.
Matrix transposed(const TensorView& view) {
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

// The compression of an MLP; 0 means none.
struct Form {
  std::array<int64_t, 3> ranks = {};  // Ranks of gate, up and down as U·V.
  int64_t input = 0, output = 0;      // Pivots that gate and up share, and pivots of down.
  std::array<int64_t, 2> separate_pivots = {};  // Separate pivots of gate and up.
};

// An MLP of random bf16 weights, in the layout of a checkpoint.
class RandomMlp {
 public:
  RandomMlp(int64_t hidden, int64_t inner, const Form& form, std::mt19937& random)
      : random_(random) {
    if (form.input > 0) weight.in = pivots(form.input, hidden, true);
    const int64_t width = form.input > 0 ? form.input : hidden;
    weight.gate = linear(width, inner, form.ranks[0], form.separate_pivots[0]);
    weight.up = linear(width, inner, form.ranks[1], form.separate_pivots[1]);
    weight.down = linear(inner, form.output > 0 ? form.output : hidden, form.ranks[2], 0);
    if (form.output > 0) weight.down.out = pivots(form.output, hidden, false);
  }

  ops::MlpWeight weight;

 private:
  ops::LinearWeight linear(int64_t in, int64_t out, int64_t rank, int64_t separate_pivots) {
    ops::LinearWeight linear;
    if (rank > 0) {
      linear.u_t = matrix(rank, in);
      linear.v_t = matrix(out, rank);
      return linear;
    }
    if (separate_pivots > 0) linear.in = pivots(separate_pivots, in, true);
    linear.w_t = matrix(out, separate_pivots > 0 ? separate_pivots : in);
    return linear;
  }
  ops::Pivots pivots(int64_t rank, int64_t features, bool of_input) {
    std::vector<int32_t> all(static_cast<size_t>(features));
    std::iota(all.begin(), all.end(), 0);
    ops::Pivots pivots;
    std::ranges::sample(all, std::back_inserter(pivots.index), rank, random_);
    const int64_t others = features - rank;
    pivots.map_t = of_input ? matrix(rank, others) : matrix(others, rank);
    return pivots;
  }
  TensorView matrix(int64_t rows, int64_t columns) {
    const double scale = 1 / std::sqrt(static_cast<double>(columns));
    const Matrix values = kernels::random_matrix(rows, columns, scale, DType::kBF16, random_);
    std::vector<std::byte>& bytes = storage_.emplace_back();
    append_rounded(DType::kBF16, values.data(), rows * columns, bytes);
    return {DType::kBF16, {rows, columns}, bytes.data()};
  }

  std::mt19937& random_;
  std::list<std::vector<std::byte>> storage_;
};

// Computes in fp64, with a bound, what an MLP gives at a program's tiling. The tiling decides the
// blocks of each sum, and so its roundings.
class Expected {
 public:
  Expected(const RandomMlp& mlp, const MlpProgram& program)
      : weight_(mlp.weight), tiling_(program.tiling) {}

  Bounded operator()(const Matrix& x) const {
    Bounded rounded(x);  // The kernel's operand is rounded.
    for (double& value : rounded.value) {
      value = static_cast<double>(bf16::from_float(static_cast<float>(value)).to_float());
    }
    const auto projection = [&](const ops::LinearWeight& weight) {
      const ops::Pivots& pivots = weight_.in.empty() ? weight.in : weight_.in;
      return linear(pivots.empty() ? rounded : narrow(rounded, pivots), weight, "up.", DType::kF32);
    };
    const Bounded h =
        gated(projection(weight_.gate), projection(weight_.up), DType::kF32, DType::kBF16);
    const Bounded z = linear(h, weight_.down, "down.", DType::kBF16);
    return weight_.down.out.empty() ? z : widened(z, weight_.down.out);
  }

 private:
  Rounding rounding(int64_t size, const std::string& block, DType result) const {
    return {DType::kF32, result, tile::ceil_div(size, tiling_[block] * 128)};
  }
  Bounded linear(const Bounded& x, const ops::LinearWeight& weight, const std::string& part,
                 DType result) const {
    if (!weight.low_rank()) {
      return multiply(x, transposed(weight.w_t), rounding(x.columns, part + "BK", result));
    }
    const Bounded strip =
        multiply(x, transposed(weight.u_t), rounding(x.columns, part + "BK", DType::kBF16));
    return multiply(strip, transposed(weight.v_t), rounding(weight.rank(), part + "Br", result));
  }
  static Bounded columns(const Bounded& x, const std::vector<int32_t>& index) {
    Bounded part(x.rows, std::ssize(index));
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < part.columns; ++j) {
        const auto to = static_cast<size_t>(i * part.columns + j);
        const auto from = static_cast<size_t>(i * x.columns + index[static_cast<size_t>(j)]);
        part.value[to] = x.value[from];
        part.error[to] = x.error[from];
      }
    }
    return part;
  }
  Bounded narrow(const Bounded& x, const ops::Pivots& pivots) const {
    const int64_t others = x.columns - pivots.rank();
    return multiply_added_to(columns(x, pivots.index), columns(x, ops::non_pivots(pivots)),
                             transposed(pivots.map_t), rounding(others, "in.BK", DType::kBF16));
  }
  Bounded widened(const Bounded& z, const ops::Pivots& pivots) const {
    const Bounded others =
        multiply(z, transposed(pivots.map_t), rounding(pivots.rank(), "out.Br", DType::kBF16));
    Bounded y(z.rows, pivots.features());
    place(z, pivots.index, y);
    place(others, ops::non_pivots(pivots), y);
    return y;
  }
  static void place(const Bounded& part, const std::vector<int32_t>& index, Bounded& y) {
    for (int64_t i = 0; i < part.rows; ++i) {
      for (int64_t j = 0; j < part.columns; ++j) {
        const auto from = static_cast<size_t>(i * part.columns + j);
        const auto to = static_cast<size_t>(i * y.columns + index[static_cast<size_t>(j)]);
        y.value[to] = part.value[from];
        y.error[to] = part.error[from];
      }
    }
  }

  const ops::MlpWeight& weight_;
  kernels::Tiling tiling_;
};

struct Case {
  int64_t tokens, hidden, inner;
  Form form;
  const char* kernel;
};
const Case kCases[] = {
    {1, 96, 200, {}, "dense_mlp"},
    {5, 200, 330, {}, "dense_mlp"},
    {130, 130, 260, {}, "dense_mlp"},
    {1, 96, 200, {.ranks = {64, 64, 64}}, "mlp"},
    {5, 200, 330, {.ranks = {40, 140, 9}}, "mlp"},
    {130, 130, 260, {.ranks = {130, 130, 130}}, "mlp"},
    {1, 96, 200, {.input = 72, .output = 64}, "narrow_mlp"},
    {130, 384, 330, {.input = 131, .output = 257}, "narrow_mlp"},
    {5, 640, 200, {.input = 33, .output = 40}, "narrow_mlp"},
    {5, 200, 330, {.input = 150}, "narrow_mlp_in"},
    {130, 130, 260, {.output = 129}, "narrow_mlp_out"},
    {1, 96, 200, {.output = 64, .separate_pivots = {72, 72}}, "pivoted_mlp"},
    {130, 384, 330, {.output = 257, .separate_pivots = {131, 131}}, "pivoted_mlp"},
    {5, 200, 330, {.separate_pivots = {150, 150}}, "pivoted_mlp_in"}};

TEST(DeviceMlp, ValuesAreWithinTheirBounds) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("seed {}: {} tokens, {} x {}, {}", seed, c.tokens, c.hidden, c.inner,
                             c.kernel));
    const RandomMlp mlp(c.hidden, c.inner, c.form, random);
    const MlpShape shape = mlp_shape(mlp.weight).value();
    MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
    const MlpProgram& program = **programs.find(shape, c.tokens);
    EXPECT_EQ(program.kernel->name, c.kernel);
    const Matrix x = kernels::random_matrix(c.tokens, c.hidden, 1.0, DType::kF32, random);
    Matrix y(c.tokens, c.hidden);
    MlpWeights(mlp.weight, shape).apply(program, x.view(), y.view());

    const Bounded wanted = Expected(mlp, program)(x);
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

// Returns two factors as one matrix of a checkpoint: [out, in] in bf16. Each element is summed in
// the order of the ranks, as documented.
TensorView product_of(const TensorView& u_t, const TensorView& v_t,
                      std::list<std::vector<std::byte>>& storage) {
  const Matrix u = transposed(u_t), v = transposed(v_t);
  std::vector<std::byte>& bytes = storage.emplace_back();
  for (int64_t j = 0; j < v.columns(); ++j) {
    for (int64_t i = 0; i < u.rows(); ++i) {
      float sum = 0;
      for (int64_t k = 0; k < v.rows(); ++k) sum = std::fma(v.row(k)[j], u.row(i)[k], sum);
      append_rounded(DType::kBF16, &sum, 1, bytes);
    }
  }
  return {DType::kBF16, {v.columns(), u.rows()}, bytes.data()};
}

// Returns a matrix with input pivots as a dense one: the pivots' columns as they are, the others
// from the map.
TensorView spread(const ops::LinearWeight& weight, std::list<std::vector<std::byte>>& storage) {
  const int64_t in = weight.in_features(), out = weight.out_features();
  const TensorView others = product_of(weight.in.map_t, weight.w_t, storage);
  std::vector<std::byte>& bytes = storage.emplace_back(static_cast<size_t>(2 * in * out));
  const auto place = [&](const TensorView& part, const std::vector<int32_t>& index) {
    for (int64_t i = 0; i < out; ++i) {
      for (int64_t j = 0; j < part.columns(); ++j) {
        const int64_t to = i * in + index[static_cast<size_t>(j)];
        std::memcpy(&bytes[static_cast<size_t>(2 * to)], part.data + 2 * (i * part.columns() + j),
                    2);
      }
    }
  };
  place(weight.w_t, weight.in.index);
  place(others, ops::non_pivots(weight.in));
  return {DType::kBF16, {out, in}, bytes.data()};
}

// If one matrix is dense, low-rank and pivoted ones are multiplied out, and the dense kernel runs
// with the products.
TEST(DeviceMlp, AMatrixOfAnotherFormIsMultipliedOut) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const int64_t hidden = 96, inner = 200;
  for (const Form& form : {Form{.ranks = {40, 0, 24}}, Form{.separate_pivots = {40, 0}},
                           Form{.output = 33, .separate_pivots = {0, 50}}}) {
    const RandomMlp mixed(hidden, inner, form, random);
    std::list<std::vector<std::byte>> storage;
    ops::MlpWeight dense = mixed.weight;
    for (ops::LinearWeight* weight : {&dense.gate, &dense.up, &dense.down}) {
      if (weight->low_rank()) *weight = {.w_t = product_of(weight->u_t, weight->v_t, storage)};
      if (!weight->in.empty()) *weight = {.w_t = spread(*weight, storage)};
    }
    const MlpShape shape = mlp_shape(mixed.weight).value();
    EXPECT_EQ(shape, mlp_shape(dense).value());
    MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
    const MlpProgram& program = **programs.find(shape, 5);
    EXPECT_EQ(program.kernel->name, form.output > 0 ? "narrow_mlp_out" : "dense_mlp");
    const Matrix x = kernels::random_matrix(5, hidden, 1.0, DType::kF32, random);
    Matrix y(5, hidden), wanted(5, hidden);
    MlpWeights(mixed.weight, shape).apply(program, x.view(), y.view());
    MlpWeights(dense, shape).apply(program, x.view(), wanted.view());
    // Fused and separate rounding of a sum may lead to different bf16 values, and a weight then
    // differs by 2^-8 of itself. Only few of the `inner` weights of a sum differ.
    double squared_error = 0, squared = 0;
    for (int64_t i = 0; i < 5 * hidden; ++i) {
      squared_error += std::pow(y.data()[i] - wanted.data()[i], 2);
      squared += std::pow(wanted.data()[i], 2);
    }
    EXPECT_LE(std::sqrt(squared_error / squared), kernels::kBf16);
  }
}

// The smaller of two ranks is padded. The weights of the inputs that become pivots are rounded once
// more, which the elementwise bound does not cover. The error as a whole must be that of the other
// MLPs.
TEST(DeviceMlp, FewerPivotsArePadded) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const int64_t hidden = 150, inner = 90;
  for (const std::array<int64_t, 2>& ranks : {std::array<int64_t, 2>{40, 140}, {129, 7}}) {
    const RandomMlp mlp(hidden, inner, {.output = 100, .separate_pivots = ranks}, random);
    const MlpShape shape = mlp_shape(mlp.weight).value();
    EXPECT_EQ(shape.input_pivots, std::max(ranks[0], ranks[1]));
    MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
    const MlpProgram& program = **programs.find(shape, 9);
    EXPECT_EQ(program.kernel->name, "pivoted_mlp");
    const Matrix x = kernels::random_matrix(9, hidden, 1.0, DType::kF32, random);
    Matrix y(9, hidden);
    MlpWeights(mlp.weight, shape).apply(program, x.view(), y.view());
    const Bounded wanted = Expected(mlp, program)(x);
    double squared_error = 0, squared = 0;
    for (size_t i = 0; i < wanted.value.size(); ++i) {
      squared_error += std::pow(static_cast<double>(y.data()[i]) - wanted.value[i], 2);
      squared += std::pow(wanted.value[i], 2);
    }
    EXPECT_LE(std::sqrt(squared_error / squared), 1.5 * kernels::kBf16);
  }
}

// Rows are interpreted in parts. The results have the same bits for every number of parts.
TEST(DeviceMlp, RowsDoNotDependOnOneAnother) {
  std::mt19937 random(1);
  for (const Form& form : {Form{}, Form{.ranks = {70, 70, 70}}, Form{.input = 70, .output = 60},
                           Form{.output = 60, .separate_pivots = {70, 50}}}) {
    const RandomMlp mlp(140, 260, form, random);
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

TEST(DeviceMlp, TheTimeIsTheKernelsPlusTheGathers) {
  MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
  const double gather = roofline_seconds(simulator::kTrn1, gather_work(33, 384));
  EXPECT_GT(gather, 0);
  struct Timed {
    MlpShape shape;
    int num_gathers;
    double parameters;
  };
  const double dense = 3 * 384 * 1024, narrow = 128 * (3 * 1024 + 2 * 256);
  for (const auto& [shape, num_gathers, parameters] :
       {Timed{{384, 1024}, 0, dense}, Timed{{384, 1024, 128}, 0, 3 * 128 * (384 + 1024)},
        Timed{{384, 1024, 0, 128, 128}, 2, narrow}, Timed{{384, 1024, 0, 256, 0}, 1, narrow},
        Timed{{384, 1024, 0, 0, 256}, 1, narrow},
        Timed{{384, 1024, 0, 128, 128, true}, 3, narrow + 128 * 256},
        Timed{{384, 1024, 0, 128, 0, true}, 2, narrow + 128 * 256}}) {
    SCOPED_TRACE(to_string(shape));
    const MlpProgram* const program = programs.find(shape, 33).value();
    const auto tiles = program->for_rows(33).value();
    const double kernel = simulator::simulate(tiles, simulator::kTrn1)->summary.total_time;
    EXPECT_DOUBLE_EQ(program->seconds, kernel + num_gathers * gather);
    // The second call finds the same program.
    EXPECT_EQ(programs.find(shape, 33).value(), program);
    EXPECT_GT(kernel, 2 * parameters / 272e9);  // The time is at least that of moving the weights.
  }
}

TEST(DeviceMlp, FormsThatNoKernelTakesAreRefused) {
  std::mt19937 random(1);
  RandomMlp biased(64, 96, {}, random);
  biased.weight.up.bias = biased.weight.up.w_t;
  EXPECT_NE(mlp_shape(biased.weight).error().message.find("up has one"), std::string::npos);

  // Gate must not have output pivots, nor down input pivots. No model folder has such pivots.
  const RandomMlp pivoted(64, 96, {.input = 32, .output = 32}, random);
  ops::MlpWeight gate = pivoted.weight, down = pivoted.weight;
  gate.gate.out = pivoted.weight.down.out;
  down.down.in = pivoted.weight.in;
  EXPECT_NE(mlp_shape(gate).error().message.find("no output pivots of gate"), std::string::npos);
  EXPECT_NE(mlp_shape(down).error().message.find("no input pivots of down"), std::string::npos);

  MlpPrograms programs(simulator::kTrn1, default_tilings(simulator::kTrn1));
  const auto too_large = programs.find({64, int64_t{1} << 21, 0, 40, 30, true}, 1);
  ASSERT_FALSE(too_large.ok());
  for (const char* word :
       {"intermediate size 2097152", "40 input pivots each", "30 output pivots"}) {
    EXPECT_NE(too_large.error().message.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace neuronmm::device
