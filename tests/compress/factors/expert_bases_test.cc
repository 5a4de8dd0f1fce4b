// Tests the bases that experts share: the factorization is compared with fp64 loops over the
// definition of its loss, and the search for sizes with all sizes.

#include "compress/factors/expert_bases.h"

#include <cmath>

#include <gtest/gtest.h>

#include "compress/oracle.h"
#include "compress/sizes/mixture_search.h"

namespace neuronmm::compress {
namespace {

DoubleMatrix projector_left_over(const DoubleMatrix& projector) {
  DoubleMatrix left(projector.rows(), projector.columns());
  for (int64_t i = 0; i < left.rows(); ++i) {
    for (int64_t j = 0; j < left.columns(); ++j)
      left(i, j) = (i == j ? 1.0 : 0.0) - projector(i, j);
  }
  return left;
}

// Random experts of a layer, and the losses of their bases by definition.
class RandomExperts {
 public:
  static constexpr int64_t kWide = 10, kWidth = 7, kCount = 3;

  explicit RandomExperts(uint64_t seed) : random_(seed) {
    const DoubleMatrix x = random_matrix(kWide, 40, random_);
    in = naive_product(x, transposed(x));
    for (int64_t e = 0; e < kCount; ++e) {
      const DoubleMatrix h = random_matrix(kWidth, 30, random_);
      KeptNeurons expert{
          .mlp = {random_matrix(kWidth, kWide, random_), random_matrix(kWidth, kWide, random_),
                  random_matrix(kWide, kWidth, random_)},
          .gate_metric = {},
          .up_metric = {},
          .gram = naive_product(h, transposed(h))};
      std::uniform_real_distribution<double> metric(0.1, 2.0);
      for (int64_t i = 0; i < kWidth; ++i) {
        expert.gate_metric.push_back(metric(random_));
        expert.up_metric.push_back(metric(random_));
      }
      experts.push_back(std::move(expert));
    }
  }
  SharedEnergies energies() const {
    SharedEnergies energies(in);
    for (const KeptNeurons& expert : experts) energies.add(expert, kScale, 0.0);
    return energies;
  }
  // Returns the loss of gate and up if x is replaced by p·x.
  double input_loss(const DoubleMatrix& p) const {
    const DoubleMatrix left = projector_left_over(p);
    const DoubleMatrix error = naive_product(naive_product(left, in), transposed(left));
    double loss = 0.0;
    for (const KeptNeurons& expert : experts) {
      for (int64_t i = 0; i < kWidth; ++i) {
        for (int64_t j = 0; j < kWide; ++j) {
          for (int64_t k = 0; k < kWide; ++k) {
            const auto at = static_cast<size_t>(i);
            loss += 0.5 * error(j, k) *
                    (expert.gate_metric[at] * expert.mlp.gate_t(i, j) * expert.mlp.gate_t(i, k) +
                     expert.up_metric[at] * expert.mlp.up_t(i, j) * expert.mlp.up_t(i, k));
          }
        }
      }
    }
    return loss;
  }
  // Returns the loss if the output y of every expert is replaced by p·y.
  double output_loss(const DoubleMatrix& p) const {
    double loss = 0.0;
    for (const KeptNeurons& expert : experts) {
      const DoubleMatrix lost = naive_product(projector_left_over(p), expert.mlp.down_t);
      const DoubleMatrix energy = naive_product(naive_product(lost, expert.gram), transposed(lost));
      for (int64_t i = 0; i < kWide; ++i) loss += 0.5 * kScale * energy(i, i);
    }
    return loss;
  }

  static constexpr double kScale = 0.7;
  DoubleMatrix in;
  std::vector<KeptNeurons> experts;
  std::mt19937_64 random_;
};

NarrowMlp tensors_of(const KeptNeurons& expert) {
  NarrowMlp mlp;
  mlp.tensors.push_back({"gate_proj.weight", expert.mlp.gate_t, {}});
  mlp.tensors.push_back({"up_proj.weight", expert.mlp.up_t, {}});
  mlp.tensors.push_back({"down_proj.weight", expert.mlp.down_t, {}});
  return mlp;
}

void expect_near(const DoubleMatrix& found, const DoubleMatrix& expected, double tolerance) {
  ASSERT_EQ(found.rows(), expected.rows());
  ASSERT_EQ(found.columns(), expected.columns());
  for (int64_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found.data()[i], expected.data()[i], tolerance);
  }
}

// The maps that the bases stand for: gate becomes gate·p and down becomes q·down.
struct Maps {
  DoubleMatrix p, q;
};
Maps maps_of(const NarrowMlp& bases, const DoubleMatrix& in) {
  const BasisFit fit = BasisFit::make(bases, in).value();
  DoubleMatrix identity(in.rows(), in.rows());
  add_to_diagonal(1.0, identity);
  NarrowMlp probe;
  probe.tensors.push_back({"gate_proj.weight", identity, {}});
  probe.tensors.push_back({"down_proj.weight", identity, {}});
  fit.apply(probe);
  return {naive_product(probe.tensors[0].values, bases.tensors[0].values),
          naive_product(bases.tensors[1].values, probe.tensors[1].values)};
}

TEST(SharedBases, HaveThePredictedLossAndNoOthersHaveLess) {
  const RandomExperts layer(5);
  const SharedEnergies energies = layer.energies();
  const BasisLosses losses = energies.losses().value();
  ASSERT_EQ(losses.input.size(), size_t{RandomExperts::kWide + 1});
  EXPECT_EQ(losses.input.back(), 0.0);
  std::mt19937_64 random(6);
  for (const int64_t rank : {1, 4, 9}) {
    const NarrowMlp bases = energies.bases({rank, rank}, DType::kF32).value();
    const auto [p, q] = maps_of(bases, layer.in);
    const auto at = static_cast<size_t>(rank);
    EXPECT_NEAR(layer.input_loss(p), losses.input[at], 1e-5 * losses.input[0]);
    EXPECT_NEAR(layer.output_loss(q), losses.output[at], 1e-5 * losses.output[0]);
    for (int i = 0; i < 20; ++i) {
      NarrowMlp others;
      others.tensors.push_back(
          {"input_basis_proj.weight", random_matrix(rank, RandomExperts::kWide, random), {}});
      others.tensors.push_back(
          {"output_basis_proj.weight", random_matrix(RandomExperts::kWide, rank, random), {}});
      const auto [other_p, other_q] = maps_of(others, layer.in);
      EXPECT_GE(layer.input_loss(other_p), losses.input[at]);
      EXPECT_GE(layer.output_loss(other_q), losses.output[at]);
    }
  }
}

// With a basis of the whole space, the fit undoes it, even where the text says nothing.
TEST(SharedBases, TheFitUndoesBasesOfAllDimensions) {
  RandomExperts layer(7);
  layer.in = DoubleMatrix(RandomExperts::kWide, RandomExperts::kWide);
  layer.in(0, 0) = 3.0;
  std::mt19937_64 random(8);
  NarrowMlp bases;
  const DoubleMatrix a_t = random_matrix(RandomExperts::kWide, RandomExperts::kWide, random);
  bases.tensors.push_back({"input_basis_proj.weight", a_t, {}});
  bases.tensors.push_back({"output_basis_proj.weight", a_t, {}});
  const BasisFit fit = BasisFit::make(bases, layer.in).value();
  for (const KeptNeurons& expert : layer.experts) {
    NarrowMlp made = tensors_of(expert);
    fit.apply(made);
    expect_near(naive_product(made.tensors[0].values, a_t), expert.mlp.gate_t, 1e-5);
    expect_near(naive_product(a_t, made.tensors[2].values), expert.mlp.down_t, 1e-5);
  }
}

TEST(SharedBases, ABiasOfDownIsProjectedToo) {
  const RandomExperts layer(9);
  const NarrowMlp bases = layer.energies().bases({0, 3}, DType::kF32).value();
  ASSERT_EQ(bases.tensors.size(), 1u) << "there is no basis of rank 0";
  const BasisFit fit = BasisFit::make(bases, layer.in).value();
  std::mt19937_64 random(10);
  const DoubleMatrix inside = random_matrix(1, 3, random);
  NarrowMlp expert;
  expert.tensors.push_back(
      {"down_proj.bias", naive_product(inside, transposed(bases.tensors[0].values)), {}});
  expert.tensors.push_back({"gate_proj.weight", layer.experts[0].mlp.gate_t, {}});
  fit.apply(expert);
  expect_near(expert.tensors[0].values, inside, 1e-6);
  expect_near(expert.tensors[1].values, layer.experts[0].mlp.gate_t, 0.0);
}

// The best shapes of all that fit, by trying them.
TEST(MixtureSearch, ComesNearTheBestOfAllShapes) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> drop(0.2, 1.0);
  const auto falling = [&](int64_t size) {
    std::vector<double> losses(static_cast<size_t>(size) + 1);
    for (size_t i = losses.size() - 1; i-- > 0;) {
      losses[i] = losses[i + 1] + drop(random) * static_cast<double>(losses.size() - i);
    }
    return losses;
  };
  const MixtureSizes sizes = {.hidden = 6, .inner = 4, .experts = 2};
  for (int round = 0; round < 20; ++round) {
    const MixtureLosses losses = {{falling(6), falling(6)}, {falling(4), falling(4)}};
    const int64_t budget = sizes.dense_parameters() * 7 / 10;
    const auto loss_of = [&](const MixtureShape& shape) {
      double loss = basis_loss(losses, shape.bases);
      for (size_t e = 0; e < 2; ++e) {
        loss += losses.neurons[e][static_cast<size_t>(shape.neurons[e])];
      }
      return loss;
    };
    double best = 1e300;
    for (int64_t input = 0; input < 6; ++input) {
      for (int64_t output = 0; output < 6; ++output) {
        for (int64_t first = 1; first <= 4; ++first) {
          for (int64_t second = 1; second <= 4; ++second) {
            const MixtureShape shape = {{input, output}, {first, second}};
            if (sizes.parameters(shape) <= budget) best = std::min(best, loss_of(shape));
          }
        }
      }
    }
    const auto found = find_mixture_shapes(Form::kMixed, sizes, 1, {losses}, budget);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_LE(sizes.parameters(found[0]), budget);
    EXPECT_GE(loss_of(found[0]), best);
    EXPECT_LE(loss_of(found[0]), 1.5 * best);
  }
}

}  // namespace
}  // namespace neuronmm::compress
