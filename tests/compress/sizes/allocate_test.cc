// Tests the allocation of ranks against a search of all allocations.

#include "compress/sizes/allocate.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "compress/factors/factorize.h"

namespace neuronmm::compress {
namespace {

io::ModelConfig config_of(int64_t hidden, int64_t inner, int64_t layers) {
  io::ModelConfig config;
  config.hidden_size = hidden;
  config.intermediate_size = inner;
  config.num_hidden_layers = layers;
  config.num_attention_heads = config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 64;
  return config;
}

Plan uniform_plan(const io::ModelConfig& config, const RankRule& rule) {
  return make_plan(config, rule, std::nullopt, "model").value();
}
// Returns the same plan with every second matrix dense.
Plan partly_dense_plan(const io::ModelConfig& config, const RankRule& rule) {
  const Plan uniform = uniform_plan(config, rule);
  std::vector<int64_t> ranks;
  for (const MatrixPlan& matrix : uniform.matrices) {
    ranks.push_back(ranks.size() % 2 == 0 ? matrix.rank : 0);
  }
  return plan_of_ranks(config, ranks, std::nullopt);
}

MatrixSensitivity random_sensitivity(int64_t values, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  MatrixSensitivity sensitivity;
  sensitivity.uniform_divergence = std::exp(-8.0 * uniform(random));
  sensitivity.floor_divergence = sensitivity.uniform_divergence * (1.0 + 9.0 * uniform(random));
  const double decay = 0.8 + 0.2 * uniform(random);
  for (int64_t i = 0; i < values; ++i) {
    sensitivity.singular_values.push_back(std::pow(decay, static_cast<double>(i)));
  }
  return sensitivity;
}

// Calls visit with every selection of one index per list.
template <typename Visit>
void for_all_choices(const std::vector<std::vector<RankChoice>>& lists, const Visit& visit) {
  std::vector<size_t> choices(lists.size());
  while (true) {
    visit(choices);
    size_t i = 0;
    while (i < lists.size() && ++choices[i] == lists[i].size()) choices[i++] = 0;
    if (i == lists.size()) return;
  }
}

struct Total {
  int64_t parameters = 0;
  double loss = 0.0;
};
Total total(const std::vector<std::vector<RankChoice>>& lists, const std::vector<size_t>& choices) {
  Total sum;
  for (size_t i = 0; i < lists.size(); ++i) {
    sum.parameters += lists[i].at(choices[i]).parameters;
    sum.loss += lists[i].at(choices[i]).loss;
  }
  return sum;
}

double least_loss(const std::vector<std::vector<RankChoice>>& lists, int64_t budget) {
  double least = std::numeric_limits<double>::infinity();
  for_all_choices(lists, [&](const std::vector<size_t>& choices) {
    const Total sum = total(lists, choices);
    if (sum.parameters <= budget) least = std::min(least, sum.loss);
  });
  return least;
}

// Losses need not be convex, nor fall with parameters.
TEST(Allocate, BestChoicesAreThoseOfAFullSearch) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<RankChoice>> lists(1 + random() % 6);
    int64_t least = 0, most = 0;
    for (auto& list : lists) {
      int64_t parameters = 0;
      for (size_t i = 0; i < 1 + random() % 5; ++i) {
        parameters += static_cast<int64_t>(1 + random() % (round % 2 == 0 ? 4 : 1000));
        list.push_back({0, parameters, static_cast<double>(random() % 1000)});
      }
      least += list.front().parameters;
      most += list.back().parameters;
    }
    const int64_t budget = least + static_cast<int64_t>(random() % 100) * (most - least) / 99;
    const Total found = total(lists, best_choices(lists, budget));
    EXPECT_LE(found.parameters, budget);
    EXPECT_EQ(found.loss, least_loss(lists, budget));  // sums of whole numbers are exact
  }
}

TEST(Allocate, TheFloorIsThreeQuartersOfTheUniformRankInWholeBlocks) {
  EXPECT_EQ(floor_rank(1024, 128), 768);
  EXPECT_EQ(floor_rank(1280, 128), 896);  // 960 is not a multiple
  EXPECT_EQ(floor_rank(192, 64), 128);
  EXPECT_EQ(floor_rank(128, 64), 64);
  EXPECT_EQ(floor_rank(7, 1), 5);
  EXPECT_EQ(floor_rank(64, 64), 64);
}

TEST(Allocate, ChoicesAreMultiplesThatSaveAndDense) {
  const auto config = config_of(384, 1024, 1);  // break-even 279.3
  const MatrixPlan matrix = uniform_plan(config, {0.2, 64}).matrices[0];
  MatrixSensitivity sensitivity{0.01, 0.08, {}};
  for (int i = 0; i < 384; ++i) sensitivity.singular_values.push_back(std::pow(0.98, i));
  const auto choices = rank_choices(matrix, 64, sensitivity);
  ASSERT_EQ(choices.size(), 4u);
  const auto energy = [&](int64_t rank) { return energy_lost(sensitivity.singular_values, rank); };
  const double power = std::log(8.0) / std::log(energy(128) / energy(192));
  for (size_t i = 0; i < 3; ++i) {
    const int64_t rank = 128 + 64 * static_cast<int64_t>(i);
    EXPECT_EQ(choices[i].rank, rank);
    EXPECT_EQ(choices[i].parameters, rank * (384 + 1024));
    const double divergence = 0.01 * std::pow(energy(rank) / energy(192), power);
    EXPECT_NEAR(choices[i].loss, std::pow(divergence, 0.75), 1e-12);
  }
  EXPECT_NEAR(choices[0].loss, std::pow(0.08, 0.75), 1e-12);
  EXPECT_EQ(choices[3].rank, 0);
  EXPECT_EQ(choices[3].parameters, 384 * 1024);
  EXPECT_EQ(choices[3].loss, 0.0);
  EXPECT_LE(choices[3].parameters, 320 * (384 + 1024));  // the cost of the next factors
}

TEST(Allocate, ManyMultiplesAreThinnedOut) {
  const auto config = config_of(2048, 8192, 1);
  for (const int64_t block : {1, 3, 16, 128}) {
    const MatrixPlan matrix = uniform_plan(config, {0.2, block}).matrices[2];
    std::mt19937_64 random(1);
    const auto choices = rank_choices(matrix, block, random_sensitivity(2048, random));
    EXPECT_LE(choices.size(), 34u);
    EXPECT_GT(choices.size(), block == 128 ? 5u : 16u);
    bool has_uniform = false;
    for (size_t i = 0; i + 1 < choices.size(); ++i) {
      EXPECT_EQ(choices[i].rank % block, 0);
      EXPECT_GE(choices[i].rank, floor_rank(matrix.rank, block));
      EXPECT_LT(choices[i].parameters, choices[i + 1].parameters);
      EXPECT_GE(choices[i].loss, choices[i + 1].loss);
      has_uniform |= choices[i].rank == matrix.rank;
    }
    EXPECT_TRUE(has_uniform);
  }
}

TEST(Allocate, RanksAreTheBestOfAllAndNeverExceedUniform) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const auto config = config_of(48, 80, 2);  // break-even 30
  for (const double ratio : {0.1, 0.3, 0.5, 0.6}) {
    for (const Plan& uniform :
         {uniform_plan(config, {ratio, 5}), partly_dense_plan(config, {ratio, 5})}) {
      std::vector<MatrixSensitivity> sensitivities;
      std::vector<std::vector<RankChoice>> lists;
      int64_t budget = 0;
      for (const MatrixPlan& matrix : uniform.matrices) {
        if (matrix.rank == 0) continue;
        sensitivities.push_back(random_sensitivity(48, random));
        lists.push_back(rank_choices(matrix, 5, sensitivities.back()));
        budget += matrix.rank * (48 + 80);
      }
      const Allocation found = allocate_ranks(uniform, 5, sensitivities);
      EXPECT_EQ(found.uniform_parameters, budget);
      EXPECT_LE(found.parameters, budget);
      const Plan plan = plan_of_ranks(config, found.ranks, std::nullopt);
      EXPECT_EQ(uniform.parameters_after - plan.parameters_after, budget - found.parameters);
      double loss = 0.0;
      size_t next = 0;
      for (size_t i = 0; i < found.ranks.size(); ++i) {
        if (uniform.matrices[i].rank == 0) {
          EXPECT_EQ(found.ranks[i], 0);
          continue;
        }
        for (const RankChoice& choice : lists[next]) {
          if (choice.rank == found.ranks[i]) loss += choice.loss;
        }
        ++next;
      }
      const double least = least_loss(lists, budget);
      EXPECT_NEAR(loss, least, 1e-12 * least);
      EXPECT_EQ(allocate_ranks(uniform, 5, sensitivities).ranks, found.ranks);
    }
  }
}

TEST(Allocate, SensitiveMatricesStayDenseAndOthersGetTheFloor) {
  const auto config = config_of(384, 1024, 2);
  const Plan uniform = uniform_plan(config, {0.35, 32});  // rank 192
  std::mt19937_64 random(1);
  std::vector<MatrixSensitivity> sensitivities(6, random_sensitivity(384, random));
  for (MatrixSensitivity& sensitivity : sensitivities) {
    sensitivity.uniform_divergence = 1e-3;
    sensitivity.floor_divergence = 1e-2;
  }
  sensitivities[4].uniform_divergence = 10.0;
  sensitivities[4].floor_divergence = 100.0;
  sensitivities[1].uniform_divergence = sensitivities[1].floor_divergence = 0.0;
  const Allocation found = allocate_ranks(uniform, 32, sensitivities);
  EXPECT_EQ(found.ranks[4], 0);
  EXPECT_EQ(found.ranks[1], 128);
  for (const size_t i : {0, 2, 3, 5}) EXPECT_GE(found.ranks[i], 160);
}

// A matrix that has low rank already loses no energy, so a larger rank gains nothing.
TEST(Allocate, MatricesWithoutLossKeepWithinTheBudget) {
  const auto config = config_of(384, 1024, 1);
  const Plan uniform = uniform_plan(config, {0.35, 32});
  MatrixSensitivity none{0.0, 0.0, std::vector<double>(384)};
  none.singular_values[0] = 1.0;
  for (const RankChoice& choice : rank_choices(uniform.matrices[0], 32, none)) {
    EXPECT_TRUE(std::isfinite(choice.loss));
  }
  const Allocation found = allocate_ranks(uniform, 32, {none, none, none});
  EXPECT_LE(found.parameters, found.uniform_parameters);
}

TEST(Allocate, UniformRanksOfOneBlockAreRefused) {
  const auto config = config_of(384, 1024, 1);
  EXPECT_TRUE(check_allocation(uniform_plan(config, {0.5, 64}), 64, "m").ok());
  const Status refused = check_allocation(uniform_plan(config, {0.5, 128}), 128, "the/model");
  ASSERT_FALSE(refused.ok());
  for (const char* word : {"the/model", "allocate", "ratio", "block of at most 64", "128"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace neuronmm::compress
