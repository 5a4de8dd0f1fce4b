// Tests of the routing of mixtures of experts, and of the layer that is composed of other
// operations.

#include "ops/mixture.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "ops/owned_tensor.h"
#include "ops/reference.h"

namespace neuronmm::ops {
namespace {

std::vector<RoutedExpert> routed(const std::vector<float>& logits, int64_t active, bool divided) {
  std::vector<RoutedExpert> chosen(static_cast<size_t>(active));
  route({logits.data(), 1, std::ssize(logits)}, active, divided, chosen);
  return chosen;
}

std::vector<int32_t> experts_of(const std::vector<RoutedExpert>& routed) {
  std::vector<int32_t> experts;
  for (const RoutedExpert& chosen : routed) experts.push_back(chosen.expert);
  return experts;
}

TEST(Routing, WeightsAreThoseOfTheSoftmax) {
  const std::vector<float> logits = {std::log(1.0f), std::log(5.0f), std::log(2.0f),
                                     std::log(4.0f)};
  const auto divided = routed(logits, 2, true);
  EXPECT_EQ(experts_of(divided), (std::vector<int32_t>{1, 3}));
  EXPECT_NEAR(divided[0].weight, 5.0 / 9.0, 1e-6);
  EXPECT_NEAR(divided[1].weight, 4.0 / 9.0, 1e-6);
  const auto shares = routed(logits, 2, false);
  EXPECT_EQ(experts_of(shares), (std::vector<int32_t>{1, 3}));
  EXPECT_NEAR(shares[0].weight, 5.0 / 12.0, 1e-6);
  EXPECT_NEAR(shares[1].weight, 4.0 / 12.0, 1e-6);
}

TEST(Routing, LargeLogitsDoNotOverflow) {
  const auto chosen = routed({1000.0f, 999.0f, -1000.0f}, 2, true);
  EXPECT_EQ(experts_of(chosen), (std::vector<int32_t>{0, 1}));
  EXPECT_NEAR(chosen[0].weight, 1.0 / (1.0 + std::exp(-1.0)), 1e-6);
}

TEST(Routing, AllExpertsMayBeActive) {
  const auto chosen = routed({0.0f, 1.0f, 2.0f}, 3, true);
  EXPECT_EQ(experts_of(chosen), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_NEAR(chosen[0].weight + chosen[1].weight + chosen[2].weight, 1.0, 1e-6);
}

TEST(Routing, NanGivesNanAndNoExpertOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto chosen = routed({0.0f, nan, 2.0f, nan}, 2, true);
  EXPECT_EQ(experts_of(chosen), (std::vector<int32_t>{1, 3}));
  EXPECT_TRUE(std::isnan(chosen[0].weight));
}

// Experts that torch.topk (torch 2, on a CPU) chooses among equal logits.
TEST(Routing, TiesAreBrokenAsTorchDoes) {
  const std::vector<std::pair<std::vector<float>, std::vector<int32_t>>> cases = {
      {{1, 2, 1, 0, 1}, {1, 4}},
      {{0, 0, 2, 1, 1}, {2, 4}},
      {{0, 0, 0, 0, 0}, {2, 4}},
      {{1, 0, 0, 2, 2, 0, 2, 0}, {4, 6}},
      {{1, 0, 2, 2, 0, 1, 2, 0}, {3, 6}},
      {{0, 0, 0, 0, 0, 0, 0, 0}, {5, 6}},
      {{0, 1, 0, 2, 0, 1, 0, 1}, {1, 3, 5, 7}},
      {{2, 0, 0, 2, 1, 1, 0, 2}, {0, 3, 5, 7}},
      {{0, 0, 0, 0, 0, 0, 0, 0}, {4, 5, 6, 7}},
      {{0, 0, 1, 2, 2, 1, 1, 0, 2, 2, 1, 2, 2, 2, 1, 1}, {3, 4, 8, 9, 10, 11, 12, 13}},
      {{2, 0, 0, 0, 2, 2, 1, 1, 2, 2, 1, 0, 1, 2, 1, 0}, {0, 4, 5, 8, 9, 10, 12, 13}},
      {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {8, 9, 10, 11, 12, 13, 14, 15}}};
  for (const auto& [logits, expected] : cases) {
    EXPECT_EQ(experts_of(routed(logits, std::ssize(expected), true)), expected);
  }
  const std::vector<std::pair<size_t, std::vector<int32_t>>> all_equal = {
      {128, {81, 82, 83, 84, 85, 86, 87, 88}}, {128, {0, 1}}, {200, {0, 1, 2}}};
  for (const auto& [count, expected] : all_equal) {
    EXPECT_EQ(experts_of(routed(std::vector<float>(count), std::ssize(expected), true)), expected)
        << count;
  }
}

TEST(Routing, GroupsHaveTheTokensOfEachExpert) {
  const std::vector<RoutedExpert> chosen = {{1, 0.25f}, {3, 0.75f}, {0, 0.5f},
                                            {3, 0.5f},  {1, 0.9f},  {3, 0.1f}};
  const ExpertGroups groups = group_by_expert(chosen, 2, 5);
  EXPECT_EQ(groups.first, (std::vector<int64_t>{0, 1, 3, 3, 6, 6}));
  EXPECT_EQ(groups.rows, (std::vector<int32_t>{1, 0, 2, 0, 1, 2}));
  EXPECT_EQ(groups.weights, (std::vector<float>{0.5f, 0.25f, 0.9f, 0.75f, 0.5f, 0.1f}));
  EXPECT_EQ(groups.tokens_of(2), 0);
  EXPECT_EQ(groups.tokens_of(3), 3);
}

// A mixture of random experts on the reference backend.
class Mixture : public testing::Test {
 protected:
  static constexpr int64_t kHidden = 12, kWidth = 7, kExperts = 5;

  OwnedTensor matrix(int64_t rows, int64_t columns, float deviation = 0.5f) {
    return {DType::kF32, {rows, columns}, random_values(rows * columns, random_, deviation)};
  }
  MixtureWeight mixture(int64_t active) const {
    MixtureWeight weight = {.router = {.w_t = router_.view()}, .active = active};
    for (size_t e = 0; e < kExperts; ++e) {
      weight.experts.push_back({.gate = {.w_t = gate_[e].view()},
                                .up = {.w_t = up_[e].view()},
                                .down = {.w_t = down_[e].view()}});
    }
    return weight;
  }
  Matrix inputs(int64_t rows) {
    Matrix x(rows, kHidden);
    const std::vector<float> values = random_values(rows * kHidden, random_, 1.0f);
    std::ranges::copy(values, x.data());
    return x;
  }
  Matrix apply(const MixtureWeight& weight, const Matrix& x) const {
    Matrix y(x.rows(), kHidden);
    backend_->make_mixture(weight)->apply(x.view(), y.view());
    return y;
  }
  Matrix apply_expert(const MixtureWeight& weight, size_t expert, const Matrix& x) const {
    Matrix y(x.rows(), kHidden);
    backend_->make_mlp(weight.experts[expert])->apply(x.view(), y.view());
    return y;
  }

  std::mt19937_64 random_{7};
  std::unique_ptr<Backend> backend_ = make_reference_backend();
  OwnedTensor router_ = matrix(kExperts, kHidden);
  std::vector<OwnedTensor> gate_, up_, down_;

  void SetUp() override {
    for (int64_t e = 0; e < kExperts; ++e) {
      gate_.push_back(matrix(kWidth, kHidden));
      up_.push_back(matrix(kWidth, kHidden));
      down_.push_back(matrix(kHidden, kWidth));
    }
  }
};

TEST_F(Mixture, IsTheWeightedSumOfTheChosenExperts) {
  const Matrix x = inputs(9);
  for (const bool divided : {true, false}) {
    MixtureWeight weight = mixture(2);
    weight.divided = divided;
    const Matrix y = apply(weight, x);
    const std::vector<RoutedExpert> chosen = Router(*backend_, weight).choose(x.view());
    for (int64_t i = 0; i < x.rows(); ++i) {
      std::vector<double> expected(kHidden);
      for (size_t k = 0; k < 2; ++k) {
        const RoutedExpert& one = chosen[static_cast<size_t>(i) * 2 + k];
        const Matrix of_expert = apply_expert(weight, static_cast<size_t>(one.expert), x);
        for (size_t j = 0; j < expected.size(); ++j) {
          expected[j] += double{one.weight} * double{of_expert.row(i)[j]};
        }
      }
      for (int64_t j = 0; j < kHidden; ++j) {
        EXPECT_NEAR(y.row(i)[j], expected[static_cast<size_t>(j)], 1e-5);
      }
    }
  }
}

TEST_F(Mixture, ATokensOutputDoesNotDependOnOthers) {
  const MixtureWeight weight = mixture(3);
  const Matrix x = inputs(17), all = apply(weight, x);
  for (int64_t i = 0; i < x.rows(); ++i) {
    Matrix one(1, kHidden);
    std::copy_n(x.row(i), kHidden, one.row(0));
    const Matrix y = apply(weight, one);
    for (int64_t j = 0; j < kHidden; ++j) EXPECT_EQ(y.row(0)[j], all.row(i)[j]);
  }
}

TEST_F(Mixture, AllTokensMayWantOneExpert) {
  MixtureWeight weight = mixture(1);
  const OwnedTensor bias(DType::kF32, {kExperts}, {0, 0, 0, 1e6f, 0});
  weight.router.bias = bias.view();
  const Matrix x = inputs(40), y = apply(weight, x), expected = apply_expert(weight, 3, x);
  for (int64_t i = 0; i < x.rows(); ++i) {
    for (int64_t j = 0; j < kHidden; ++j) EXPECT_EQ(y.row(i)[j], expected.row(i)[j]);
  }
}

// Experts on bases compute what experts with the products of both matrices compute.
TEST_F(Mixture, SharedBasesAreFactorsOfAllExperts) {
  constexpr int64_t kIn = 4, kOut = 3;
  const OwnedTensor input = matrix(kIn, kHidden), output = matrix(kHidden, kOut);
  const auto product = [&](const OwnedTensor& a, const OwnedTensor& b) {
    const int64_t rows = a.view().rows(), inner = a.view().columns(), columns = b.view().columns();
    std::vector<float> left(static_cast<size_t>(rows * inner)),
        right(static_cast<size_t>(inner * columns)), values;
    to_floats(a.view(), 0, std::ssize(left), left.data());
    to_floats(b.view(), 0, std::ssize(right), right.data());
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0.0;
        for (int64_t k = 0; k < inner; ++k) {
          sum += double{left[static_cast<size_t>(i * inner + k)]} *
                 double{right[static_cast<size_t>(k * columns + j)]};
        }
        values.push_back(static_cast<float>(sum));
      }
    }
    return OwnedTensor(DType::kF32, {rows, columns}, values);
  };
  std::vector<OwnedTensor> small, whole;
  for (int64_t e = 0; e < kExperts; ++e) {
    small.push_back(matrix(kWidth, kIn));
    small.push_back(matrix(kWidth, kIn));
    small.push_back(matrix(kOut, kWidth));
    const auto last = small.end() - 3;
    whole.push_back(product(last[0], input));
    whole.push_back(product(last[1], input));
    whole.push_back(product(output, last[2]));
  }
  MixtureWeight on_bases = mixture(2), dense = mixture(2);
  on_bases.input.w_t = input.view();
  on_bases.output.w_t = output.view();
  for (size_t e = 0; e < kExperts; ++e) {
    for (const auto& [weight, tensors] :
         {std::pair(&on_bases, &small), std::pair(&dense, &whole)}) {
      MlpWeight& expert = weight->experts[e];
      expert.gate.w_t = (*tensors)[3 * e].view();
      expert.up.w_t = (*tensors)[3 * e + 1].view();
      expert.down.w_t = (*tensors)[3 * e + 2].view();
    }
  }
  EXPECT_EQ(on_bases.expert_in(), kIn);
  EXPECT_EQ(on_bases.expert_out(), kOut);
  const Matrix x = inputs(13), expected = apply(dense, x), found = apply(on_bases, x);
  for (int64_t i = 0; i < x.rows() * kHidden; ++i) {
    EXPECT_NEAR(found.data()[i], expected.data()[i], 1e-5);
  }
}

// Processes that have some of the experts add up to the whole.
TEST_F(Mixture, PartsOfTheExpertsAddUp) {
  const MixtureWeight whole = mixture(3);
  const Matrix x = inputs(11), expected = apply(whole, x);
  Matrix sum(x.rows(), kHidden);
  for (const auto& [first, end] : {std::pair(0, 2), std::pair(2, 2), std::pair(2, 5)}) {
    MixtureWeight part = whole;
    part.first_expert = first;
    part.experts.assign(whole.experts.begin() + first, whole.experts.begin() + end);
    const Matrix y = apply(part, x);
    for (int64_t i = 0; i < y.rows() * kHidden; ++i) sum.data()[i] += y.data()[i];
  }
  for (int64_t i = 0; i < sum.rows() * kHidden; ++i) {
    EXPECT_NEAR(sum.data()[i], expected.data()[i], 1e-5);
  }
}

TEST_F(Mixture, NoTokensAreFine) {
  Matrix x(0, kHidden), y(0, kHidden);
  backend_->make_mixture(mixture(2))->apply(x.view(), y.view());
}

// The router is in fp32 even if its weight is not, and in a float dtype of any kind.
TEST_F(Mixture, TheRouterIsWidened) {
  MixtureWeight weight = mixture(2);
  std::vector<float> values(kExperts * kHidden);
  to_floats(router_.view(), 0, std::ssize(values), values.data());
  const OwnedTensor rounded(DType::kBF16, {kExperts, kHidden}, values);
  weight.router.w_t = rounded.view();
  to_floats(rounded.view(), 0, std::ssize(values), values.data());
  const OwnedTensor widened(DType::kF32, {kExperts, kHidden}, values);
  MixtureWeight same = mixture(2);
  same.router.w_t = widened.view();
  const Matrix x = inputs(6);
  EXPECT_EQ(Router(*backend_, weight).choose(x.view()), Router(*backend_, same).choose(x.view()));
}

}  // namespace
}  // namespace neuronmm::ops
