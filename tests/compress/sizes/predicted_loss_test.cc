// Tests predicted losses against their definition on random texts, in long double.
#include "compress/sizes/predicted_loss.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/factors/fewer_neurons.h"
#include "compress/whitened_oracle.h"

namespace neuronmm::compress {
namespace {

constexpr uint64_t kLossSeed = 20261123;
constexpr int64_t kLossHidden = 10, kLossInner = 16;

// An MLP and a random text, of which the code only gets the Gram matrices of neurons and input.
struct KnownProblem {
  DenseMlp mlp;
  MlpStatistics statistics;
  MlpMetric metric;
  LongMatrix input_root, samples;  // samples: [I, tokens], the neurons at every token
};

KnownProblem random_known(int64_t tokens, double kappa, std::mt19937_64& random) {
  const LongMatrix root = graded_root(kLossHidden, 1e3, 0, random);
  const LongMatrix shape = graded_root(kLossInner, kappa, 0, random);
  LongMatrix samples = shape * LongMatrix(random_matrix(kLossInner, tokens, random));
  LongMatrix gram = samples * flipped(samples);
  for (long double& value : gram.values) value /= tokens;
  return {{random_matrix(kLossInner, kLossHidden, random),
           random_matrix(kLossInner, kLossHidden, random),
           random_matrix(kLossHidden, kLossInner, random)},
          {gram_of_root(root), rounded_doubles(gram), {}, {}, {}},
          {gram_of_root(graded_root(kLossHidden, 1e2, 0, random)),
           random_weights(kLossInner, random), random_weights(kLossInner, random)},
          root,
          std::move(samples)};
}

long double half_cost(const LongMatrix& errors, const DoubleMatrix& metric) {
  const LongMatrix weighted = LongMatrix(metric) * errors;
  long double sum = 0;
  for (size_t i = 0; i < errors.values.size(); ++i) sum += errors.values[i] * weighted.values[i];
  return sum / 2;
}

// Returns W·C[:, k]·C[k, k]⁻¹ with zeros for all other neurons: the weight that replaces W.
LongMatrix stand_in(const KnownProblem& problem, std::vector<int32_t> kept) {
  LongMatrix out(kLossHidden, kLossInner);
  if (kept.empty()) return out;
  const DoubleMatrix rows = problem.statistics.neurons.rows_at(kept);
  const LongMatrix few =
      flipped(solved(LongMatrix(rows.columns_at(kept)),
                     LongMatrix(rows) * flipped(LongMatrix(problem.mlp.down_t))));
  for (size_t k = 0; k < kept.size(); ++k) {
    for (int64_t i = 0; i < kLossHidden; ++i) out(i, kept[k]) = few(i, static_cast<int64_t>(k));
  }
  return out;
}

// The loss ½ tr(Γ W (C - C_k C_kk⁻¹ C_kᵀ) Wᵀ) as the mean over the samples. `slack` is how much a
// ridge of 1e-6 of C's mean diagonal may add.
struct DirectLoss {
  double loss, slack;
};
DirectLoss direct_loss(const KnownProblem& problem, const std::vector<int32_t>& kept) {
  const LongMatrix missing = LongMatrix(problem.mlp.down_t) - stand_in(problem, kept);
  const double tokens = static_cast<double>(problem.samples.columns);
  double mean = 0.0;
  for (const double value : diagonal(problem.statistics.neurons)) mean += value / kLossInner;
  return {static_cast<double>(half_cost(missing * problem.samples, problem.metric.out)) / tokens,
          1e-6 * mean * static_cast<double>(half_cost(missing, problem.metric.out))};
}

std::vector<int32_t> first(const std::vector<int32_t>& order, int64_t count) {
  std::vector<int32_t> kept(order.begin(), order.begin() + count);
  std::ranges::sort(kept);
  return kept;
}

TEST(PredictedLoss, NeuronsCostWhatTheOthersCannotReplace) {
  std::mt19937_64 random(kLossSeed);
  for (const double kappa : {1e1, 1e4}) {
    SCOPED_TRACE(fmt::format("kappa {}, seed {}", kappa, kLossSeed));
    const KnownProblem problem = random_known(200, kappa, random);
    const auto losses = predict_losses(problem.mlp, problem.statistics, problem.metric);
    ASSERT_TRUE(losses.ok()) << losses.error().message;
    ASSERT_EQ(losses->neurons.size(), static_cast<size_t>(kLossInner + 1));
    EXPECT_EQ(losses->neurons.back(), 0.0);
    for (int64_t k = 0; k <= kLossInner; ++k) {
      const DirectLoss direct = direct_loss(problem, first(losses->order, k));
      const double found = losses->neurons[static_cast<size_t>(k)];
      // Rounding the Gram matrix and its factor adds I errors.
      const double rounding = kLossInner * kLossInner * 0x1p-53 * losses->neurons[0];
      EXPECT_GE(found, direct.loss - rounding) << k;
      EXPECT_LE(found, direct.loss + direct.slack + rounding) << k;
    }
  }
}

// Removes one neuron after the other, each time the one whose removal costs least on the text.
std::vector<int32_t> removed_one_by_one(const KnownProblem& problem) {
  std::vector<int32_t> left(kLossInner), order;
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    std::vector<double> without;
    for (size_t i = 0; i < left.size(); ++i) {
      std::vector<int32_t> kept = left;
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
      without.push_back(direct_loss(problem, kept).loss);
    }
    const auto cheapest = left.begin() + (std::ranges::min_element(without) - without.begin());
    order.push_back(*cheapest);
    left.erase(cheapest);
  }
  std::ranges::reverse(order);
  return order;
}

TEST(PredictedLoss, NeuronsAreRemovedCheapestFirst) {
  std::mt19937_64 random(kLossSeed);
  for (const double kappa : {1e1, 1e2, 1e3}) {
    SCOPED_TRACE(fmt::format("kappa {}, seed {}", kappa, kLossSeed));
    const KnownProblem problem = random_known(200, kappa, random);
    const auto losses = predict_losses(problem.mlp, problem.statistics, problem.metric);
    ASSERT_TRUE(losses.ok());
    EXPECT_EQ(losses->order, removed_one_by_one(problem));
  }
}

// If each neuron is scored alone, neither of two copies has any value.
TEST(PredictedLoss, OneOfTwoCopiesStays) {
  std::mt19937_64 random(kLossSeed);
  KnownProblem problem = random_known(200, 1e1, random);
  const int64_t half = kLossInner / 2;
  DoubleMatrix& gram = problem.statistics.neurons;
  for (int64_t i = 0; i < kLossInner; ++i) {
    for (int64_t j = 0; j < kLossInner; ++j) gram(i, j) = gram(i % half, j % half);
  }
  const auto losses = predict_losses(problem.mlp, problem.statistics, problem.metric);
  ASSERT_TRUE(losses.ok()) << losses.error().message;
  std::vector<int32_t> originals;
  for (int64_t k = 0; k < half; ++k) originals.push_back(losses->order[size_t(k)] % int32_t(half));
  std::ranges::sort(originals);
  for (int32_t k = 0; k < half; ++k) EXPECT_EQ(originals[size_t(k)], k) << "seed " << kLossSeed;
  EXPECT_LE(losses->neurons[size_t(half)], 1e-5 * losses->neurons[0]);
}

// Every curve belongs to another weight, with other row weights.
TEST(PredictedLoss, RanksCostTheDiscardedSingularValues) {
  std::mt19937_64 random(kLossSeed);
  const KnownProblem problem = random_known(200, 1e2, random);
  const auto losses = predict_losses(problem.mlp, problem.statistics, problem.metric);
  ASSERT_TRUE(losses.ok());
  const LongMatrix gate(problem.mlp.gate_t), up(problem.mlp.up_t);
  const MlpMetric& metric = problem.metric;
  const auto metric_root = whitening_root(metric.out);
  ASSERT_TRUE(metric_root.ok());
  LongMatrix outputs =
      flipped(LongMatrix(*metric_root)) * LongMatrix(problem.mlp.down_t) * problem.samples;
  for (long double& value : outputs.values)
    value /= std::sqrt((long double)problem.samples.columns);
  const struct {
    const char* name;
    const std::vector<double>& found;
    std::vector<double> expected;
  } curves[] = {
      {"gate", losses->gate, losses_of_ranks(stacked({gate}, {metric.gate}) * problem.input_root)},
      {"up", losses->up, losses_of_ranks(stacked({up}, {metric.up}) * problem.input_root)},
      {"input", losses->input,
       losses_of_ranks(stacked({gate, up}, {metric.gate, metric.up}) * problem.input_root)},
      {"output", losses->output, losses_of_ranks(outputs)}};
  for (const auto& [name, found, expected] : curves) {
    SCOPED_TRACE(fmt::format("{}, seed {}", name, kLossSeed));
    ASSERT_EQ(found.size(), static_cast<size_t>(kLossHidden + 1));
    for (size_t rank = 0; rank < found.size(); ++rank) {
      EXPECT_NEAR(found[rank], expected[rank], kLossInner * kLossInner * 0x1p-52 * expected[0])
          << rank;
    }
  }
}

TEST(PredictedLoss, FewerNeuronsAreFittedLikeLeastSquaresOnTheText) {
  std::mt19937_64 random(kLossSeed);
  const KnownProblem problem = random_known(60, 1e1, random);
  for (const std::vector<int32_t>& kept : {std::vector<int32_t>{3},
                                           {0, 5, 6, 15},
                                           {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}) {
    SCOPED_TRACE(fmt::format("{} neurons, seed {}", kept.size(), kLossSeed));
    const auto down = down_of_fewer_neurons(problem.mlp.down_t, problem.statistics.neurons, kept);
    ASSERT_TRUE(down.ok());
    // Solves the normal equations of the samples.
    LongMatrix h(std::ssize(kept), problem.samples.columns);
    for (int64_t t = 0; t < h.columns; ++t) {
      for (int64_t k = 0; k < h.rows; ++k) h(k, t) = problem.samples(kept[size_t(k)], t);
    }
    const LongMatrix y = LongMatrix(problem.mlp.down_t) * problem.samples;
    const LongMatrix best = flipped(solved(h * flipped(h), h * flipped(y)));
    const auto least = static_cast<double>((y - best * h).energy()),
               found = static_cast<double>((y - LongMatrix(*down) * h).energy());
    EXPECT_GE(found, least * (1 - 1e-12));
    EXPECT_LE(found, least * (1 + 1e-9));
    // The ridge is a relative 1e-6, and the Gram matrix of the kept neurons has a condition number
    // below 100.
    EXPECT_LE((LongMatrix(*down) - best).energy(), 1e-8L * best.energy());
  }
}

// Covers a layer in which no neuron ever fires, and one in which a single neuron never fires.
TEST(PredictedLoss, SilentNeuronsCostNothing) {
  std::mt19937_64 random(kLossSeed);
  KnownProblem problem = random_known(100, 1e1, random);
  for (int64_t j = 0; j < kLossInner; ++j) {
    problem.statistics.neurons(4, j) = problem.statistics.neurons(j, 4) = 0.0;
  }
  const auto one = predict_losses(problem.mlp, problem.statistics, problem.metric);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->order.back(), 4);
  problem.statistics.neurons = DoubleMatrix(kLossInner, kLossInner);
  problem.statistics.in = DoubleMatrix(kLossHidden, kLossHidden);
  const auto none = predict_losses(problem.mlp, problem.statistics, problem.metric);
  ASSERT_TRUE(none.ok()) << none.error().message;
  for (const double loss : none->input) EXPECT_EQ(loss, 0.0);
  for (const double loss : none->output) EXPECT_EQ(loss, 0.0);
  for (const double loss : none->neurons) EXPECT_TRUE(std::isfinite(loss));
}

TEST(PredictedLoss, WeightsThatAreNotFiniteAreNamed) {
  std::vector<float> good(6, 1.0f), bad = good;
  for (const float value : {std::nanf(""), INFINITY}) {
    bad[4] = value;
    const auto view = [](const std::vector<float>& values, int64_t rows, int64_t columns) {
      return TensorView{
          DType::kF32, {rows, columns}, reinterpret_cast<const std::byte*>(values.data())};
    };
    for (const std::string which : {"gate", "up", "down"}) {
      ops::MlpWeight mlp;
      mlp.gate.w_t = view(which == "gate" ? bad : good, 3, 2);
      mlp.up.w_t = view(which == "up" ? bad : good, 3, 2);
      mlp.down.w_t = view(which == "down" ? bad : good, 2, 3);
      const auto read = DenseMlp::read(mlp);
      ASSERT_FALSE(read.ok());
      EXPECT_EQ(read.error().message, which + ": the weight holds NaN or infinity");
    }
  }
}

}  // namespace
}  // namespace neuronmm::compress
