// This test compares norms, rotary embeddings, sums, activations and caps with fp64.

#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "cpu/error_bounds.h"
#include "cpu/kernels.h"
#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kElementwiseSeed = 17;

class Elementwise : public OnEveryTarget {
 protected:
  std::mt19937_64 random_{kElementwiseSeed};
  std::unique_ptr<ops::Backend> backend_ = make_backend(current_kernels());
};
NMM_ON_EVERY_TARGET(Elementwise);

TEST_P(Elementwise, RmsNormOfEveryLength) {
  const float eps = 1e-5f;
  for (int64_t n = 1; n <= 140; ++n) {
    const Matrix x = random_matrix(3, n, random_);
    const std::vector<float> weight = random_values(n, random_);
    Matrix y(3, n), in_place = x;
    backend_->rms_norm(x.view(), weight, eps, y.view());
    backend_->rms_norm(in_place.view(), weight, eps, in_place.view());
    for (int64_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += std::pow(x.row(i)[j], 2);
      const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(eps));
      for (int64_t j = 0; j < n; ++j) {
        const double expected = x.row(i)[j] * scale * weight[static_cast<size_t>(j)];
        ASSERT_NEAR(y.row(i)[j], expected, std::abs(expected) * (sum_error(n) + 6 * kUnit))
            << "seed " << kElementwiseSeed << ", n " << n;
        ASSERT_EQ(in_place.row(i)[j], y.row(i)[j]);
      }
    }
  }
}

TEST_P(Elementwise, RopeAtNearAndFarPositions) {
  for (const int64_t head_dim : {2, 10, 64, 96}) {
    ops::RotaryEmbedding rotary;
    for (int64_t j = 0; j < head_dim / 2; ++j) {
      rotary.inverse_frequencies.push_back(
          std::pow(500000.0f, -2.0f * static_cast<float>(j) / static_cast<float>(head_dim)));
    }
    const std::pair<int64_t, float> cases[] = {{0, 1.0f}, {131000, 1.0f}, {131000, 1.25f}};
    for (const auto& [first, scale] : cases) {
      rotary.attention_factor = scale;
      const std::vector<int64_t> positions = {first, first + 1, first + 9, first, first + 3};
      const Matrix before = random_matrix(5, 3 * head_dim, random_);
      Matrix x = before;
      backend_->rope(x.view(), head_dim, positions, rotary);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t column = 0; column < 3 * head_dim; ++column) {
          const int64_t j = column % head_dim % (head_dim / 2);
          const bool is_low = column % head_dim < head_dim / 2;
          const double angle = static_cast<double>(positions[static_cast<size_t>(i)]) *
                               rotary.inverse_frequencies[static_cast<size_t>(j)];
          const double own = before.row(i)[column];
          const double other =
              before.row(i)[is_low ? column + head_dim / 2 : column - head_dim / 2];
          const double expected =
              scale * (own * std::cos(angle) + (is_low ? -1 : 1) * other * std::sin(angle));
          ASSERT_NEAR(x.row(i)[column], expected, 5 * kUnit * (std::abs(own) + std::abs(other)))
              << "seed " << kElementwiseSeed << ", head_dim " << head_dim << ", row " << i
              << " from position " << first;
        }
      }
    }
  }
}

TEST_P(Elementwise, AddTouchesOnlyItsColumns) {
  for (int64_t n = 1; n <= 40; ++n) {
    const Matrix x = random_matrix(4, n, random_), before = random_matrix(4, n + 2, random_);
    Matrix storage = before;
    backend_->add(x.view(), MutableMatrixView(storage.data(), 4, n, n + 2));
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < n + 2; ++j) {
        const float sum = j < n ? before.row(i)[j] + x.row(i)[j] : before.row(i)[j];
        ASSERT_EQ(storage.row(i)[j], sum) << "seed " << kElementwiseSeed << ", n " << n;
      }
    }
  }
}

TEST_P(Elementwise, AcceptsNoRows) {
  Matrix x(0, 8);
  backend_->rms_norm(x.view(), std::vector<float>(8), 1e-5f, x.view());
  backend_->rope(x.view(), 4, {}, {{0.0f, 0.0f}});
  backend_->add(x.view(), x.view());
}

// exp has an error of 1 ulp (2 roundings). With 1 + e, the division and the multiplication by 1,
// the error stays within 6 roundings.
TEST_P(Elementwise, SiluOverItsWholeRange) {
  const Kernels& kernels = current_kernels();
  ASSERT_EQ(kernels.target, GetParam().name());
  std::vector<float> gate;
  for (float z = -87.0f; z <= 100.0f; z += 0.0037f) gate.push_back(z);
  std::vector<float> up(gate.size(), 1.0f);
  kernels.silu_multiply(gate.data(), up.data(), std::ssize(gate));
  for (size_t i = 0; i < gate.size(); ++i) {
    const double z = gate[i], expected = z / (1 + std::exp(-z));
    ASSERT_NEAR(up[i], expected, 6 * kUnit * std::abs(expected)) << "silu(" << z << ")";
  }
}

// An error of t = 2 u(z) of 4 roundings changes e^-t by 4 |t| roundings.
TEST_P(Elementwise, GeluOverItsWholeRange) {
  std::vector<float> gate;
  for (float z = -5.5f; z <= 100.0f; z += 0.0037f) gate.push_back(z);
  std::vector<float> up(gate.size(), 1.0f);
  current_kernels().gelu_multiply(gate.data(), up.data(), std::ssize(gate));
  for (size_t i = 0; i < gate.size(); ++i) {
    const double z = gate[i], u = std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z);
    const double expected = z / (1 + std::exp(-2 * u));
    const double roundings = 6 + (u < 0 ? -8 * u : 0.0);
    ASSERT_NEAR(up[i], expected, roundings * kUnit * std::abs(expected)) << "gelu(" << z << ")";
    ASSERT_NEAR(expected, z / 2 * (1 + std::tanh(u)), 1e-13 * (1 + std::abs(z)));
  }
}

TEST_P(Elementwise, GeluHandlesExtremeInputs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gate = {-200.0f, -1e30f, 0.0f, 1e30f, infinity, std::nanf("")};
  std::vector<float> up(gate.size(), 1.0f);
  current_kernels().gelu_multiply(gate.data(), up.data(), std::ssize(gate));
  EXPECT_NEAR(up[0], 0.0f, 1e-35f);
  EXPECT_NEAR(up[1], 0.0f, 1e-7f);
  EXPECT_EQ(up[2], 0.0f);
  EXPECT_EQ(up[3], 1e30f);
  EXPECT_EQ(up[4], infinity);
  EXPECT_TRUE(std::isnan(up[5]));
}

// The rational function has an error of 5 roundings; the division and the multiplication by the cap
// have one each, and 1 / cap has another one.
TEST_P(Elementwise, CapsSoftlyAndScales) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f, infinity, -infinity};
  for (float z = -70.0f; z <= 70.0f; z += 0.0037f) values.push_back(z);
  for (const int64_t columns : {std::ssize(values), int64_t{3}}) {
    Matrix y(1, columns), scaled(1, columns);
    std::copy_n(values.data(), columns, y.data());
    std::copy_n(values.data(), columns, scaled.data());
    backend_->soft_cap(7.0f, y.view());
    backend_->scale(0.3f, scaled.view());
    for (int64_t i = 0; i < columns; ++i) {
      const double z = values[static_cast<size_t>(i)], expected = 7 * std::tanh(z / 7);
      ASSERT_NEAR(y.row(0)[i], expected, 8 * kUnit * std::abs(expected)) << z;
      ASSERT_EQ(scaled.row(0)[i], values[static_cast<size_t>(i)] * 0.3f);
    }
  }
  Matrix nan(1, 1);
  nan.data()[0] = std::nanf("");
  backend_->soft_cap(7.0f, nan.view());
  EXPECT_TRUE(std::isnan(nan.data()[0]));
}

TEST_P(Elementwise, SiluHandlesExtremeInputs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gate = {-200.0f, -1e30f, 0.0f, 1e30f, infinity, std::nanf("")};
  std::vector<float> up(gate.size(), 1.0f);
  current_kernels().silu_multiply(gate.data(), up.data(), std::ssize(gate));
  EXPECT_NEAR(up[0], 0.0f, 1e-35f);
  EXPECT_NEAR(up[1], 0.0f, 1e-7f);  // about -1e30 / exp(88)
  EXPECT_EQ(up[2], 0.0f);
  EXPECT_EQ(up[3], 1e30f);
  EXPECT_EQ(up[4], infinity);
  EXPECT_TRUE(std::isnan(up[5]));
}

}  // namespace
}  // namespace neuronmm::cpu
