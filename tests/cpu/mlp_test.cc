// This test compares the fused MLP with naive fp64 code, for every mixture of dense and low-rank
// projections.

#include <cstring>
#include <random>

#include "cpu/error_bounds.h"
#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kMlpSeed = 11;

// A projection that owns its weights.
struct Projection {
  Projection(int64_t k, int64_t r, int64_t n, DType dtype, bool with_bias, std::mt19937_64& random)
      : w_t(tensor(dtype, n, k, random)),
        u_t(tensor(dtype, std::max<int64_t>(r, 1), k, random)),
        v_t(tensor(dtype, n, std::max<int64_t>(r, 1), random)),
        bias(DType::kF32, {n}, random_values(n, random)) {
    if (r > 0) {
      weight.u_t = u_t.view();
      weight.v_t = v_t.view();
    } else {
      weight.w_t = w_t.view();
    }
    if (with_bias) weight.bias = bias.view();
  }
  static OwnedTensor tensor(DType dtype, int64_t rows, int64_t columns, std::mt19937_64& random) {
    const auto deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    return {dtype, {rows, columns}, random_values(rows * columns, random, deviation)};
  }
  OwnedTensor w_t, u_t, v_t, bias;
  ops::LinearWeight weight;
};

struct Ranks {
  int64_t gate, up, down;  // 0 for dense
};

struct Layer {
  Layer(int64_t h, int64_t i, const Ranks& ranks, DType dtype, bool bias, std::mt19937_64& random)
      : gate(h, ranks.gate, i, dtype, bias, random),
        up(h, ranks.up, i, dtype, bias, random),
        down(i, ranks.down, h, dtype, bias, random) {}
  ops::MlpWeight weight() const { return {gate.weight, up.weight, down.weight}; }
  Projection gate, up, down;
};

class Mlp : public OnEveryTarget {
 protected:
  std::mt19937_64 random_{kMlpSeed};
  std::unique_ptr<ops::Backend> backend_ = make_backend(kernels_);
};
NMM_ON_EVERY_TARGET(Mlp);
NMM_WITH_EMULATED_AMX(Mlp);

TEST_P(Mlp, EveryMixtureOfDenseAndLowRank) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (int low_rank = 0; low_rank < 8; ++low_rank) {
      for (const bool bias : {false, true}) {
        const Ranks ranks = {low_rank & 1 ? 17 : 0, low_rank & 2 ? 40 : 0, low_rank & 4 ? 12 : 0};
        const Layer layer(45, 83, ranks, dtype, bias, random_);
        const auto fused = backend_->make_mlp(layer.weight());
        for (const int64_t m : {0, 1, 4, 13, 30}) {
          SCOPED_TRACE(testing::Message() << "seed " << kMlpSeed << ", low-rank " << low_rank
                                          << ", bias " << bias << ", M " << m);
          const Matrix x = random_matrix(m, 45, random_);
          Matrix y(m, 45);
          fused->apply(x.view(), y.view());
          expect_within(mlp(Bounded(x.view()), layer.weight()), y.view());
        }
      }
    }
  }
}

// On one thread, 7 + 10 panels of strips and 35 panels of gate and up are processed in groups of 4.
TEST_P(Mlp, PanelsAreProcessedInGroups) {
  set_num_threads(1);
  for (const Ranks& ranks : {Ranks{200, 310, 0}, Ranks{0, 0, 0}}) {
    const Layer layer(30, 1100, ranks, DType::kBF16, true, random_);
    const auto fused = backend_->make_mlp(layer.weight());
    for (const int64_t m : {1, 5}) {
      const Matrix x = random_matrix(m, 30, random_);
      Matrix y(m, 30);
      fused->apply(x.view(), y.view());
      expect_within(mlp(Bounded(x.view()), layer.weight()), y.view());
    }
  }
}

// Gate is int8, and up and down are partly int8, so that every pair of packings of X occurs.
TEST_P(Mlp, Int8MixedWithOtherDTypes) {
  const int64_t h = 150, i = 270, r = 64;
  const Layer layer(h, i, {r, r, r}, DType::kBF16, true, random_);
  std::vector<ops::QuantizedWeight> kept;
  const auto int8 = [&](const ops::LinearWeight& weight, bool first, bool second) {
    ops::LinearWeight mixed = weight;
    if (first) mixed.u_t = kept.emplace_back(ops::quantize(weight.u_t)).view();
    if (second) mixed.v_t = kept.emplace_back(ops::quantize(weight.v_t)).view();
    return mixed;
  };
  kept.reserve(12);
  const ops::MlpWeight weight = layer.weight();
  for (const ops::MlpWeight& mixed :
       {ops::MlpWeight{int8(weight.gate, true, true), int8(weight.up, true, true),
                       int8(weight.down, true, true)},
        ops::MlpWeight{int8(weight.gate, true, false), int8(weight.up, false, true),
                       int8(weight.down, false, true)}}) {
    const auto fused = backend_->make_mlp(mixed);
    for (const int64_t m : {1, 4, 13, 250}) {
      const Matrix x = random_matrix(m, h, random_);
      Matrix y(m, h);
      fused->apply(x.view(), y.view());
      expect_within(mlp(Bounded(x.view()), mixed), y.view());
    }
  }
}

// Hidden rows have more than one block of K, more tiles than one step, and a partial last panel.
TEST_P(Mlp, HiddenRowsOfSeveralBlocks) {
  const int64_t h = 12, i = 2085, m = 103;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Layer layer(h, i, {0, 40, 0}, dtype, true, random_);
    const ops::QuantizedWeight down = ops::quantize(layer.down.weight.w_t);
    ops::MlpWeight weight = layer.weight();
    for (const bool int8 : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << kMlpSeed << dtype_name(dtype) << ", int8 " << int8);
      if (int8) weight.down.w_t = down.view();
      const Matrix x = random_matrix(m, h, random_);
      Matrix y(m, h);
      backend_->make_mlp(weight)->apply(x.view(), y.view());
      expect_within(mlp(Bounded(x.view()), weight), y.view());
    }
  }
}

TEST_P(Mlp, MoreThanOneBlockOfRows) {
  const Layer layer(20, 37, {17, 40, 12}, DType::kBF16, false, random_);
  const Matrix x = random_matrix(245, 20, random_);
  Matrix y(245, 20);
  backend_->make_mlp(layer.weight())->apply(x.view(), y.view());
  expect_within(mlp(Bounded(x.view()), layer.weight()), y.view());
}

TEST_P(Mlp, BitsDependNeitherOnThreadsNorOnTheOtherRows) {
  const int64_t m = 30, h = 130, i = 1100;
  for (const Ranks& ranks : {Ranks{0, 0, 0}, Ranks{200, 310, 12}}) {
    const Layer layer(h, i, ranks, DType::kBF16, false, random_);
    const auto fused = backend_->make_mlp(layer.weight());
    const Matrix x = random_matrix(m, h, random_);
    Matrix expected(m, h), y(m, h);
    set_num_threads(1);
    fused->apply(x.view(), expected.view());
    const size_t bytes = static_cast<size_t>(m * h) * sizeof(float);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      fused->apply(x.view(), y.view());
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << threads << " threads";
    }
    for (int64_t row = 0; row < m; ++row) {
      fused->apply(x.view().row_range(row, 1), y.view().row_range(row, 1));
    }
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << "row by row";
  }
}

}  // namespace
}  // namespace neuronmm::cpu
