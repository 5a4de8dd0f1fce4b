// Checks the kernels for mixtures of experts: their values against fp64 computed token by token,
// without any grouping, their bytes, their simulated time, and what a wrong choice of experts says.

#include "trainium/kernels/moe_mlp.h"

#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/float16.h"
#include "trainium/devices.h"
#include "trainium/kernels/experts.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/interpreter.h"
#include "trainium/simulator/residency.h"
#include "trainium/simulator/timing.h"
#include "trainium/tile/counts.h"

namespace neuronmm::kernels {
namespace {

using Weights = std::map<std::string, Matrix>;

// A mixture: X and the weights of all experts, one below the other.
struct Mixture {
  const Kernel* kernel;
  KernelShape shape;
  KernelOptions options;
  Matrix x;
  Weights weights;

  bool low_rank() const { return kernel->name == "moe_mlp"; }
};

Matrix random_values(int64_t rows, int64_t columns, double scale, DType dtype,
                     std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, static_cast<float>(scale));
  Matrix matrix(rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float value = normal(random);
    matrix.data()[i] = dtype == DType::kBF16 ? bf16::from_float(value).to_float() : value;
  }
  return matrix;
}

Mixture random_mixture(std::string_view name, const KernelShape& shape, DType dtype,
                       std::mt19937& random) {
  Mixture mixture{.kernel = find_kernel(name).value(),
                  .shape = shape,
                  .options = {.dtype = dtype},
                  .x = random_values(shape.M, shape.K, 1, dtype, random),
                  .weights = {}};
  const auto add = [&](const char* weight, int64_t in, int64_t out) {
    mixture.weights.emplace(weight,
                            random_values(shape.E * in, out, 1 / std::sqrt(in), dtype, random));
  };
  if (mixture.low_rank()) {
    add("u_gate", shape.K, shape.r), add("v_gate", shape.r, shape.N);
    add("u_up", shape.K, shape.r), add("v_up", shape.r, shape.N);
    add("u_down", shape.N, shape.r), add("v_down", shape.r, shape.K);
  } else {
    add("w_gate", shape.K, shape.N), add("w_up", shape.K, shape.N), add("w_down", shape.N, shape.K);
  }
  return mixture;
}

// Returns the row times the matrix of one expert.
std::vector<double> times(const std::vector<double>& row, const Matrix& all, int64_t expert) {
  const auto rows = std::ssize(row);
  std::vector<double> product(static_cast<size_t>(all.columns()));
  for (int64_t k = 0; k < rows; ++k) {
    const float* const weights = all.row(expert * rows + k);
    for (size_t j = 0; j < product.size(); ++j) {
      product[j] += row[static_cast<size_t>(k)] * static_cast<double>(weights[j]);
    }
  }
  return product;
}

std::vector<double> output_of_expert(const Mixture& mixture, const std::vector<double>& x,
                                     int64_t expert) {
  const auto chain = [&](const std::vector<double>& row, const std::string& name) {
    if (!mixture.low_rank()) return times(row, mixture.weights.at("w_" + name), expert);
    return times(times(row, mixture.weights.at("u_" + name), expert),
                 mixture.weights.at("v_" + name), expert);
  };
  std::vector<double> h = chain(x, "gate");
  const std::vector<double> up = chain(x, "up");
  for (size_t i = 0; i < h.size(); ++i) h[i] = h[i] / (1 + std::exp(-h[i])) * up[i];
  return chain(h, "down");
}

// Computes every token with its own experts, as a router's definition says.
std::vector<std::vector<double>> naive(const Mixture& mixture, const ExpertChoice& choice) {
  std::vector<std::vector<double>> y;
  for (int64_t t = 0; t < choice.tokens; ++t) {
    const float* const row = mixture.x.row(t);
    const std::vector<double> x(row, row + mixture.shape.K);
    std::vector<double>& sum = y.emplace_back(static_cast<size_t>(mixture.shape.K));
    for (int64_t a = 0; a < choice.active; ++a) {
      const auto at = static_cast<size_t>(t * choice.active + a);
      const std::vector<double> output = output_of_expert(mixture, x, choice.experts[at]);
      for (size_t j = 0; j < sum.size(); ++j) {
        sum[j] += static_cast<double>(choice.weights[at]) * output[j];
      }
    }
  }
  return y;
}

simulator::Inputs inputs_of(const Mixture& mixture, const GroupedExperts& grouped) {
  simulator::Inputs inputs;
  inputs.emplace("x", mixture.x.view());
  inputs.emplace("experts", grouped.experts.view());
  inputs.emplace("shares", grouped.shares.view());
  for (const auto& [name, matrix] : mixture.weights) inputs.emplace(name, matrix.view());
  return inputs;
}

Result<simulator::Interpretation> run(const Mixture& mixture, const GroupedExperts& grouped,
                                      const TilingValues& tiling = {},
                                      simulator::Fault* fault = nullptr) {
  NMM_ASSIGN(const Tiling tiles, tiling_of(*mixture.kernel, tiling));
  NMM_ASSIGN(const tile::Program program,
             make_program(*mixture.kernel, mixture.shape, tiles, mixture.options));
  const tile::CheckReport report = tile::check(program, {});
  for (const tile::Violation& violation : report.violations) ADD_FAILURE() << violation.message;
  EXPECT_LE(report.psum.peak, 8);
  return simulator::interpret(program, inputs_of(mixture, grouped), fault);
}

// Compares with the largest value. A token's output has about four roundings of bf16 along the way.
void expect_naive(const Mixture& mixture, const ExpertChoice& choice, int64_t slots,
                  const TilingValues& tiling = {}) {
  const auto grouped = group_by_expert(choice, mixture.shape.E, slots);
  ASSERT_TRUE(grouped.ok()) << grouped.error().message;
  const auto found = run(mixture, *grouped, tiling);
  ASSERT_TRUE(found.ok()) << found.error().message;
  const std::vector<std::vector<double>> wanted = naive(mixture, choice);
  double largest = 0, error = 0;
  for (int64_t t = 0; t < choice.tokens; ++t) {
    for (size_t j = 0; j < wanted[static_cast<size_t>(t)].size(); ++j) {
      const double value = wanted[static_cast<size_t>(t)][j];
      largest = std::max(largest, std::fabs(value));
      const auto computed = static_cast<double>(found->outputs.at("y").row(t)[j]);
      error = std::max(error, std::fabs(computed - value));
    }
  }
  EXPECT_GT(largest, 0);
  EXPECT_LE(error, largest * (mixture.options.dtype == DType::kF32 ? 1e-5 : 1.5e-2));
}

// Each token chooses `active` experts from the first `among`, so that all of these have a token.
ExpertChoice in_turns(int64_t tokens, int64_t active, int64_t among, std::mt19937& random) {
  ExpertChoice choice{.tokens = tokens, .active = active, .experts = {}, .weights = {}};
  std::uniform_real_distribution<float> weight(0.1f, 1.0f);
  for (int64_t i = 0; i < tokens * active; ++i) {
    choice.experts.push_back(i % among);
    choice.weights.push_back(weight(random));
  }
  return choice;
}

class MoeValues : public testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  Mixture mixture(const KernelShape& shape) {
    return random_mixture(std::get<0>(GetParam()), shape, std::get<1>(GetParam()), random_);
  }
  std::mt19937 random_{20261};
};

TEST_P(MoeValues, OneTokenWithItsExperts) {
  const Mixture m = mixture({.M = 1, .K = 70, .r = 30, .N = 50, .E = 5, .A = 3, .D = 3});
  expect_naive(m, {.tokens = 1, .active = 3, .experts = {4, 0, 2}, .weights = {0.5f, 0.25f, 0.25f}},
               3);
}

// No size is a multiple of a tile, and the blocks are smaller than every size.
TEST_P(MoeValues, OddSizesInSmallBlocks) {
  const Mixture m = mixture({.M = 7, .K = 555, .r = 333, .N = 277, .E = 3, .A = 2, .D = 3});
  const bool low_rank = m.low_rank();
  const TilingValues dense = {{"up.BK", 2}, {"up.BN", 1}, {"down.BK", 1}, {"down.BN", 1}};
  const TilingValues factors = {{"up.BK", 3},   {"up.Bu", 2},   {"up.Br", 1},   {"up.BN", 2},
                                {"down.BK", 2}, {"down.Bu", 1}, {"down.Br", 2}, {"down.BN", 1}};
  expect_naive(m, in_turns(7, 2, 3, random_), 3, low_rank ? factors : dense);
}

TEST_P(MoeValues, ThirtyTwoTokens) {
  const Mixture m = mixture({.M = 32, .K = 256, .r = 128, .N = 384, .E = 12, .A = 2, .D = 9});
  expect_naive(m, in_turns(32, 2, 9, random_), 9, {});
}

TEST_P(MoeValues, AllTokensWantOneExpert) {
  const Mixture m = mixture({.M = 11, .K = 130, .r = 40, .N = 90, .E = 6, .A = 1, .D = 1});
  const ExpertChoice choice{.tokens = 11,
                            .active = 1,
                            .experts = std::vector<int64_t>(11, 5),
                            .weights = std::vector<float>(11, 1.0f)};
  expect_naive(m, choice, 1);
}

TEST_P(MoeValues, EveryExpertIsWantedByExactlyOneToken) {
  const Mixture m = mixture({.M = 4, .K = 128, .r = 32, .N = 100, .E = 8, .A = 2, .D = 8});
  expect_naive(m, in_turns(4, 2, 8, random_), 8);
}

// A kernel has a fixed number of slots. A batch that needs fewer repeats an expert with no share.
TEST_P(MoeValues, SlotsThatAreLeftOverChangeNothing) {
  const Mixture m = mixture({.M = 5, .K = 96, .r = 24, .N = 72, .E = 7, .A = 2, .D = 6});
  expect_naive(m, in_turns(5, 2, 3, random_), 6);
}

// The weights of experts that no token chooses are NaN. Reading one of them would show.
TEST_P(MoeValues, OnlyChosenExpertsAreRead) {
  Mixture m = mixture({.M = 3, .K = 140, .r = 20, .N = 60, .E = 5, .A = 1, .D = 2});
  for (auto& [name, matrix] : m.weights) {
    const int64_t rows = matrix.rows() / m.shape.E;
    for (const int64_t expert : {0, 2, 3}) {
      std::fill_n(matrix.row(expert * rows), rows * matrix.columns(),
                  std::numeric_limits<float>::quiet_NaN());
    }
  }
  expect_naive(m, {.tokens = 3, .active = 1, .experts = {1, 4, 1}, .weights = {1, 1, 1}}, 2);
}

INSTANTIATE_TEST_SUITE_P(Forms, MoeValues,
                         testing::Combine(testing::Values("dense_moe_mlp", "moe_mlp"),
                                          testing::Values(DType::kBF16, DType::kF32)),
                         [](const auto& form) {
                           return fmt::format("{}_{}", std::get<0>(form.param),
                                              dtype_name(std::get<1>(form.param)));
                         });

// The kernel takes numbers as they come, so the run itself has to refuse one that does not exist.
TEST(MoeIndex, ANumberBeyondTheExpertsIsAFault) {
  std::mt19937 random(3);
  const Mixture m = random_mixture(
      "dense_moe_mlp", {.M = 2, .K = 128, .N = 64, .E = 4, .A = 1, .D = 1}, DType::kBF16, random);
  GroupedExperts grouped{.experts = Matrix(1, 1), .shares = Matrix(2, 1), .distinct = 1};
  grouped.shares.row(0)[0] = grouped.shares.row(1)[0] = 1;
  for (const float number : {4.0f, -1.0f}) {
    grouped.experts.row(0)[0] = number;
    simulator::Fault fault;
    const auto found = run(m, grouped, {}, &fault);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(fault.kind, simulator::Fault::Kind::kOutOfBounds);
    const std::string part = fmt::format(
        "w_gate_tiles has 4 matrices, and expert names number {}, which is out of bounds",
        static_cast<int>(number));
    EXPECT_NE(found.error().message.find(part), std::string::npos) << found.error().message;
  }
}

TEST(GroupByExpert, DistinctExpertsInOrderWithTheirShares) {
  const auto grouped = group_by_expert(
      {.tokens = 3, .active = 2, .experts = {7, 2, 2, 5, 7, 5}, .weights = {1, 2, 3, 4, 5, 6}}, 8);
  ASSERT_TRUE(grouped.ok());
  EXPECT_EQ(grouped->distinct, 3);
  const std::vector<float> experts = {2, 5, 7}, shares = {2, 0, 1, 3, 4, 0, 0, 6, 5};
  EXPECT_EQ(std::vector<float>(grouped->experts.data(), grouped->experts.data() + 3), experts);
  EXPECT_EQ(std::vector<float>(grouped->shares.data(), grouped->shares.data() + 9), shares);
}

TEST(GroupByExpert, WrongChoicesAreNamed) {
  const std::tuple<ExpertChoice, int64_t, const char*> choices[] = {
      {{.tokens = 2, .active = 1, .experts = {0, 8}, .weights = {1, 1}},
       0,
       "token 1 chooses expert 8; the mixture has 8, numbered from 0"},
      {{.tokens = 1, .active = 1, .experts = {-1}, .weights = {1}}, 0, "chooses expert -1"},
      {{.tokens = 1, .active = 2, .experts = {3, 3}, .weights = {1, 1}},
       0,
       "token 0 chooses expert 3 twice"},
      {{.tokens = 1, .active = 2, .experts = {3}, .weights = {1, 1}},
       0,
       "expected 1 x 2 numbers and weights, found 1 and 2"},
      {{.tokens = 0, .active = 1, .experts = {}, .weights = {}}, 0, "found 0 x 1"},
      {{.tokens = 1, .active = 2, .experts = {3, 4}, .weights = {1, 1}},
       1,
       "choose 2 distinct experts; the kernel has slots for 1"}};
  for (const auto& [choice, slots, part] : choices) {
    const auto grouped = group_by_expert(choice, 8, slots);
    ASSERT_FALSE(grouped.ok()) << part;
    EXPECT_NE(grouped.error().message.find(part), std::string::npos) << grouped.error().message;
  }
}

struct Model {
  const char* name;
  int64_t hidden, width, experts, active;
};
constexpr Model kModels[] = {{"Qwen3-30B-A3B", 2048, 768, 128, 8},
                             {"OLMoE-1B-7B", 2048, 1024, 64, 8},
                             {"gpt-oss-20b", 2880, 2880, 32, 4}};

KernelShape shape_of_model(const Model& model, int64_t tokens, int64_t distinct, int64_t rank = 0) {
  return {.M = tokens,
          .K = model.hidden,
          .r = rank,
          .N = model.width,
          .E = model.experts,
          .A = model.active,
          .D = distinct};
}

// Each distinct chosen expert's weights move once, whatever the number of tokens that chose it.
TEST(MoeBytes, EachDistinctExpertIsLoadedOnce) {
  const Kernel& dense = *find_kernel("dense_moe_mlp").value();
  const Kernel& low_rank = *find_kernel("moe_mlp").value();
  for (const Model& model : kModels) {
    for (const int64_t tokens : {1, 8, 32}) {
      const int64_t most = std::min(model.experts, tokens * model.active);
      for (const int64_t distinct : {model.active, most}) {
        const auto count = [&](const Kernel& kernel, int64_t rank) {
          return tile::count(make_program(kernel, shape_of_model(model, tokens, distinct, rank),
                                          tiling_of(kernel, {}).value(), {})
                                 .value());
        };
        const int64_t ends = 2 * tokens * model.hidden + 4 * distinct * (tokens + 1);
        EXPECT_EQ(count(dense, 0).hbm_read_bytes,
                  ends + distinct * 3 * 2 * model.hidden * model.width)
            << model.name << " " << tokens;
        EXPECT_EQ(count(low_rank, 256).hbm_read_bytes,
                  ends + distinct * 3 * 2 * 256 * (model.hidden + model.width))
            << model.name << " " << tokens;
        EXPECT_EQ(count(dense, 0).hbm_write_bytes, 2 * tokens * model.hidden);
      }
    }
  }
}

// A decode step takes about as long as its weights take to load. On trn2 the launch takes 8.5 us.
TEST(MoeTime, TheWeightsDecideTheTime) {
  const Kernel& kernel = *find_kernel("dense_moe_mlp").value();
  for (const simulator::DeviceSpec& device : simulator::devices()) {
    const double bandwidth =
        std::min(device.dma_engines * device.dma_bandwidth, double{device.hbm_bandwidth});
    for (const Model& model : kModels) {
      for (const int64_t tokens : {1, 8}) {
        const KernelShape shape = shape_of_model(model, tokens, model.active);
        const Tiling tiling =
            fitting_tiling(kernel, shape, {}, {}, simulator::limits_of(device)).value();
        const auto timing =
            simulator::simulate(make_program(kernel, shape, tiling, {}).value(), device);
        ASSERT_TRUE(timing.ok()) << timing.error().message;
        EXPECT_TRUE(timing->remedies.empty()) << model.name;
        const double ns = timing->summary.total_time * 1e9 - device.kernel_fixed_ns;
        const double bound = static_cast<double>(timing->summary.hbm_bytes()) / bandwidth;
        EXPECT_GE(ns, bound) << model.name << " on " << device.name;
        EXPECT_LE(ns, 1.25 * bound) << model.name << " on " << device.name;
      }
    }
  }
}

// A load waits for the number that tells its place, which takes a transfer of its own.
TEST(MoeTime, LoadsWaitForTheNumbersOfTheExperts) {
  using tile::all;
  using tile::at;
  const auto nanoseconds = [](bool indexed) {
    tile::Builder b("one_expert");
    const tile::BufferId experts = b.input("experts", DType::kI32, {1, 1});
    const tile::BufferId w = b.input("w", DType::kBF16, {512, 64});
    const tile::BufferId y = b.output("y", DType::kBF16, {128, 64});
    const tile::BufferId matrices = b.matrices("w_matrices", w, 128);
    const tile::BufferId number = b.sbuf("number", DType::kI32, {1, 1});
    b.load(at(number, {all(1), all(1)}), at(experts, {all(1), all(1)}));
    const tile::BufferId block = b.sbuf("block", DType::kBF16, {128, 64});
    const tile::Access index = at(number, {all(1), all(1)});
    b.load(at(block, {all(128), all(64)}),
           indexed ? tile::at_index(matrices, index, {all(128), all(64)})
                   : at(matrices, {tile::one(2), all(128), all(64)}));
    b.store(at(y, {all(128), all(64)}), at(block, {all(128), all(64)}));
    return simulator::simulate(b.finish(), simulator::kTrn1)->summary.total_time * 1e9;
  };
  const simulator::DeviceSpec& device = simulator::kTrn1;
  EXPECT_GT(nanoseconds(true) - nanoseconds(false),
            0.9 * (device.dma_start_ns + device.dma_completion_ns));
}

}  // namespace
}  // namespace neuronmm::kernels
