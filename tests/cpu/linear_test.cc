// This test compares linear layers with naive fp64 products, for all small shapes and every storage
// of a weight.

#include <bit>
#include <cstring>
#include <random>

#include "cpu/error_bounds.h"
#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kLinearSeed = 7;

// A window on a wider matrix whose other elements must not change.
struct Strided {
  Strided(int64_t rows, int64_t columns, int64_t stride) : storage(rows + 1, stride) {
    std::fill_n(storage.data(), storage.rows() * stride, kGuard);
    view = {storage.data(), rows, columns, stride};
  }
  void expect_guards_intact() const {
    for (int64_t i = 0; i < storage.rows(); ++i) {
      const int64_t first = i < view.rows ? view.columns : 0;
      for (int64_t j = first; j < storage.columns(); ++j) ASSERT_EQ(storage.row(i)[j], kGuard);
    }
  }
  static constexpr float kGuard = 1234.5f;
  Matrix storage;
  MutableMatrixView view;
};

class Linear : public OnEveryTarget {
 protected:
  OwnedTensor tensor(DType dtype, int64_t rows, int64_t columns) {
    return {dtype, {rows, columns}, random_values(rows * columns, random_)};
  }
  ops::QuantizedWeight quantized(int64_t rows, int64_t columns) {
    return ops::quantize(tensor(DType::kF32, rows, columns).view());
  }
  Strided strided(int64_t rows, int64_t columns) {
    Strided x(rows, columns, columns + 3);
    for (int64_t i = 0; i < rows; ++i) {
      const std::vector<float> values = random_values(columns, random_);
      std::copy(values.begin(), values.end(), x.view.row(i));
    }
    return x;
  }
  void expect_right(const ops::LinearWeight& weight, int64_t m) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kLinearSeed << ", M " << m << ", K " << weight.in_features()
                 << ", r " << weight.rank() << ", N " << weight.out_features() << ", "
                 << dtype_name((weight.low_rank() ? weight.u_t : weight.w_t).dtype));
    const Strided x = strided(m, weight.in_features());
    const Strided y(m, weight.out_features(), weight.out_features() + 5);
    backend_->make_linear(weight)->apply(x.view, y.view);
    expect_within(multiply(Bounded(x.view), weight), y.view);
    y.expect_guards_intact();
  }

  std::mt19937_64 random_{kLinearSeed};
  std::unique_ptr<ops::Backend> backend_ = make_backend(kernels_);
};
NMM_ON_EVERY_TARGET(Linear);
NMM_WITH_EMULATED_AMX(Linear);

TEST_P(Linear, EveryNumberOfRowsWithRaggedColumns) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t n : {1, 15, 33, 70, 160}) {
      const OwnedTensor w_t = tensor(dtype, n, 37);
      for (int64_t m = 0; m <= 27; ++m) expect_right({.w_t = w_t.view()}, m);
    }
  }
}

TEST_P(Linear, EveryNumberOfColumns) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t n = 1; n <= 66; ++n) {
      const OwnedTensor w_t = tensor(dtype, n, 5);
      for (const int64_t m : {1, 2, 7}) expect_right({.w_t = w_t.view()}, m);
    }
  }
}

TEST_P(Linear, EveryInnerLengthAndMoreThanOneBlockOfK) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    std::vector<int64_t> lengths = {511, 512, 513, 1023, 1025, 2047, 2049};
    for (int64_t k = 1; k <= 20; ++k) lengths.push_back(k);
    for (const int64_t k : lengths) {
      const OwnedTensor w_t = tensor(dtype, 35, k);
      for (const int64_t m : {1, 3, 14}) expect_right({.w_t = w_t.view()}, m);
    }
  }
}

TEST_P(Linear, MoreThanOneBlockOfRows) {
  const OwnedTensor w_t = tensor(DType::kBF16, 40, 20);
  for (const int64_t m : {240, 241, 500}) expect_right({.w_t = w_t.view()}, m);
}

// On one thread there are enough panels for groups, and the last group is smaller.
TEST_P(Linear, PanelsInGroups) {
  set_num_threads(1);
  const OwnedTensor w_t = tensor(DType::kBF16, 1100, 40);
  const OwnedTensor u_t = tensor(DType::kF32, 330, 40), v_t = tensor(DType::kBF16, 300, 330);
  for (const int64_t m : {1, 5, 14}) {
    expect_right({.w_t = w_t.view()}, m);
    expect_right({.u_t = u_t.view(), .v_t = v_t.view()}, m);
  }
}

TEST_P(Linear, LowRankInEveryDType) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    for (const int64_t rank : {1, 16, 31, 128}) {
      const OwnedTensor u_t = tensor(dtype, rank, 45), v_t = tensor(dtype, 50, rank);
      for (const int64_t m : {0, 1, 2, 5, 13, 250}) {
        expect_right({.u_t = u_t.view(), .v_t = v_t.view()}, m);
      }
    }
  }
}

TEST_P(Linear, FactorsOfDifferentDTypes) {
  const OwnedTensor u_t = tensor(DType::kF32, 9, 45), v_t = tensor(DType::kBF16, 50, 9);
  for (const int64_t m : {1, 4}) expect_right({.u_t = u_t.view(), .v_t = v_t.view()}, m);
}

TEST_P(Linear, AddsTheBias) {
  for (const int64_t n : {1, 17, 50, 96}) {
    const OwnedTensor bias(DType::kBF16, {n}, random_values(n, random_, 10.0f));
    const OwnedTensor w_t = tensor(DType::kF32, n, 600);
    const OwnedTensor u_t = tensor(DType::kBF16, 8, 600), v_t = tensor(DType::kBF16, n, 8);
    for (const int64_t m : {1, 3, 14}) {
      expect_right({.w_t = w_t.view(), .bias = bias.view()}, m);
      expect_right({.u_t = u_t.view(), .v_t = v_t.view(), .bias = bias.view()}, m);
    }
  }
}

// The values are small integers, so every product and sum is exact, and any order gives the same
// result.
TEST_P(Linear, IntegersAreExact) {
  std::uniform_int_distribution<int> digit(-9, 9);
  const int64_t m = 19, k = 700, n = 77;
  std::vector<float> weights(static_cast<size_t>(n * k));
  for (float& w : weights) w = static_cast<float>(digit(random_));
  const OwnedTensor w_t(DType::kBF16, {n, k}, weights);
  Matrix x(m, k), y(m, n);
  for (int64_t i = 0; i < m * k; ++i) x.data()[i] = static_cast<float>(digit(random_));
  backend_->make_linear({.w_t = w_t.view()})->apply(x.view(), y.view());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += static_cast<double>(x.row(i)[l]) *
               static_cast<double>(weights[static_cast<size_t>(j * k + l)]);
      }
      ASSERT_EQ(y.row(i)[j], sum) << "seed " << kLinearSeed << " at " << i << ", " << j;
    }
  }
}

// The result of a row has the same bits whatever the number of rows and threads.
TEST_P(Linear, BitsDependNeitherOnThreadsNorOnTheOtherRows) {
  const int64_t m = 40, k = 530, r = 70, n = 600;
  const OwnedTensor w_t = tensor(DType::kBF16, n, k);
  const OwnedTensor u_t = tensor(DType::kBF16, r, k), v_t = tensor(DType::kF32, n, r);
  const ops::QuantizedWeight w_int8 = quantized(n, k), u_int8 = quantized(r, k);
  const Matrix x = random_matrix(m, k, random_);
  for (const ops::LinearWeight& weight :
       {ops::LinearWeight{.w_t = w_t.view()},
        ops::LinearWeight{.u_t = u_t.view(), .v_t = v_t.view()},
        ops::LinearWeight{.w_t = w_int8.view()},
        ops::LinearWeight{.u_t = u_int8.view(), .v_t = v_t.view()}}) {
    const auto linear = backend_->make_linear(weight);
    Matrix expected(m, n), y(m, n);
    set_num_threads(1);
    linear->apply(x.view(), expected.view());
    const size_t bytes = static_cast<size_t>(m * n) * sizeof(float);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      linear->apply(x.view(), y.view());
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << threads << " threads";
    }
    for (int64_t first = 0, rows = 1; first < m; first += rows++) {  // 1, 2, 3, ... rows at a time
      const int64_t count = std::min(rows, m - first);
      linear->apply(x.view().row_range(first, count), y.view().row_range(first, count));
    }
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << "in pieces";
  }
}

TEST_P(Linear, WeightMayBeUnaligned) {
  const std::vector<float> values = random_values(6 * 11, random_);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    std::vector<std::byte> bytes(1);
    append_rounded(dtype, values.data(), 6 * 11, bytes);
    expect_right({.w_t = TensorView{dtype, {6, 11}, bytes.data() + 1}}, 2);
  }
}

TEST_P(Linear, Int8OfEveryShape) {
  std::vector<int64_t> lengths = {127, 128, 129, 131, 255, 256, 300, 1023, 1153, 2049};
  for (int64_t k = 1; k <= 20; ++k) lengths.push_back(k);
  for (const int64_t k : lengths) {
    for (const int64_t n : {1, 31, 32, 35, 70, 160}) {
      const ops::QuantizedWeight w = quantized(n, k);
      for (const int64_t m : {1, 2, 3, 4, 5, 7, 12, 13}) expect_right({.w_t = w.view()}, m);
    }
  }
}

TEST_P(Linear, Int8OfEveryNumberOfRowsAndColumns) {
  for (int64_t n = 1; n <= 66; ++n) {
    const ops::QuantizedWeight w = quantized(n, 133);
    for (const int64_t m : {1, 6}) expect_right({.w_t = w.view()}, m);
  }
  const ops::QuantizedWeight w = quantized(70, 140);
  for (int64_t m = 0; m <= 27; ++m) expect_right({.w_t = w.view()}, m);
  for (const int64_t m : {240, 241, 500}) expect_right({.w_t = w.view()}, m);
}

// Inputs are rounded in two terms, which makes the error 254 times as small.
TEST_P(Linear, FineInputsAreRoundedTwice) {
  const OwnedTensor bias(DType::kF32, {70}, random_values(70, random_, 10.0f));
  for (const int64_t k : {1, 5, 127, 128, 129, 300, 2049}) {
    const OwnedTensor w = tensor(DType::kF32, 70, k);
    for (const LowBitFormat format : {LowBitFormat{}, LowBitFormat{6}, LowBitFormat{4, 16}}) {
      const ops::QuantizedWeight rounded = ops::quantize(w.view(), format);
      for (const int64_t m : {1, 2, 12, 13, 40, 250}) {
        if (m == 250 && k > 300) continue;
        expect_right({.w_t = rounded.view(), .bias = bias.view(), .round_input_twice = true}, m);
        if (m < 50) expect_right({.w_t = rounded.view(), .round_input_twice = true}, m);
      }
    }
    expect_right({.w_t = w.view(), .round_input_twice = true}, 3);
  }
}

TEST_P(Linear, Int8Factors) {
  const OwnedTensor bias(DType::kF32, {50}, random_values(50, random_, 10.0f));
  for (const int64_t rank : {1, 64, 128, 200}) {
    const ops::QuantizedWeight u = quantized(rank, 300), v = quantized(50, rank);
    const OwnedTensor float_v = tensor(DType::kBF16, 50, rank);
    for (const int64_t m : {1, 4, 13, 250}) {
      expect_right({.u_t = u.view(), .v_t = v.view()}, m);
      expect_right({.u_t = u.view(), .v_t = v.view(), .bias = bias.view()}, m);
      expect_right({.u_t = u.view(), .v_t = float_v.view()}, m);
    }
  }
}

// Rows of integers whose largest magnitude is 127 are their own quantization. With a scale of 1 the
// result is exact, even with the largest bytes and with sums that would overflow 16 bits.
TEST_P(Linear, Int8OfExtremeBytesIsExact) {
  const int64_t m = 5, k = 261, n = 40;
  ops::QuantizedWeight w = {n, k, {}, {}};
  std::uniform_int_distribution<int> side(0, 1);
  for (int64_t i = 0; i < n * k; ++i) {
    w.values.push_back(static_cast<int8_t>(side(random_) != 0 || i < k ? 127 : -127));
  }
  w.scales.assign(static_cast<size_t>(n * w.groups()), bf16::from_float(1.0f));
  Matrix x(m, k), y(m, n);
  for (int64_t i = 0; i < m * k; ++i) {
    x.data()[i] = side(random_) != 0 || i < k ? 127.0f : -127.0f;
  }
  backend_->make_linear({.w_t = w.view()})->apply(x.view(), y.view());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += static_cast<double>(x.row(i)[l]) * w.values[static_cast<size_t>(j * k + l)];
      }
      ASSERT_EQ(y.row(i)[j], sum) << "seed " << kLinearSeed << " at " << i << ", " << j;
    }
  }
}

// A row of zeros gives zeros. NaN and infinity do not disappear by rounding.
TEST_P(Linear, Int8KeepsZerosAndNonFiniteRows) {
  const ops::QuantizedWeight w = quantized(33, 150);
  const auto linear = backend_->make_linear({.w_t = w.view()});
  Matrix x(3, 150), y(3, 33);
  x.row(1)[140] = std::numeric_limits<float>::quiet_NaN();
  x.row(2)[3] = std::numeric_limits<float>::infinity();
  linear->apply(x.view(), y.view());
  for (int64_t j = 0; j < 33; ++j) {
    EXPECT_EQ(y.row(0)[j], 0.0f);
    EXPECT_TRUE(std::isnan(y.row(1)[j])) << j;
    EXPECT_FALSE(std::isfinite(y.row(2)[j])) << j;
  }
}

TEST_P(Linear, Bf16KeepsNonFiniteRows) {
  const OwnedTensor w_t = tensor(DType::kBF16, 33, 151);
  const auto linear = backend_->make_linear({.w_t = w_t.view()});
  Matrix x(4, 151), y(4, 33);
  x.row(1)[140] = std::numeric_limits<float>::quiet_NaN();
  x.row(2)[3] = std::numeric_limits<float>::infinity();
  x.row(3)[150] = std::bit_cast<float>(0xFFFFFFFFu);  // a NaN that rounding up would turn into zero
  linear->apply(x.view(), y.view());
  for (int64_t j = 0; j < 33; ++j) {
    EXPECT_EQ(y.row(0)[j], 0.0f);
    EXPECT_TRUE(std::isnan(y.row(1)[j])) << j;
    EXPECT_FALSE(std::isfinite(y.row(2)[j])) << j;
    EXPECT_TRUE(std::isnan(y.row(3)[j])) << j;
  }
}

// Layers with one input, like q, k and v, give the bits that each gives alone, whatever the others
// are.
TEST_P(Linear, LayersRunTogetherHaveTheirOwnBits) {
  const int64_t k = 150;
  const OwnedTensor q = tensor(DType::kBF16, 330, k), v = tensor(DType::kBF16, 33, k);
  const OwnedTensor bias = tensor(DType::kF32, 1, 330), other = tensor(DType::kF32, 40, k);
  const OwnedTensor u = tensor(DType::kBF16, 20, k), second = tensor(DType::kBF16, 64, 20);
  const ops::QuantizedWeight int8 = quantized(65, k);
  const ops::LinearWeight weights[] = {
      {.w_t = q.view(), .bias = {DType::kF32, {330}, bias.view().data}},
      {.w_t = int8.view()},
      {.w_t = v.view()},
      {.u_t = u.view(), .v_t = second.view()},
      {.w_t = other.view()},
      {.w_t = int8.view(), .round_input_twice = true}};
  for (const int64_t m : {0, 1, 13, 250}) {
    const Strided x = strided(m, k);
    std::vector<std::unique_ptr<ops::Linear>> linears;
    std::vector<const ops::Linear*> together;
    std::vector<Strided> ys;
    std::vector<MutableMatrixView> views;
    for (const ops::LinearWeight& weight : weights) {
      together.push_back(linears.emplace_back(backend_->make_linear(weight)).get());
      views.push_back(ys.emplace_back(m, weight.out_features(), weight.out_features() + 5).view);
    }
    backend_->apply_together(together, x.view, views);
    for (size_t i = 0; i < together.size(); ++i) {
      Matrix alone(m, weights[i].out_features());
      together[i]->apply(x.view, alone.view());
      ys[i].expect_guards_intact();
      for (int64_t row = 0; row < m; ++row) {
        const auto bytes = static_cast<size_t>(alone.columns()) * sizeof(float);
        ASSERT_EQ(std::memcmp(alone.row(row), ys[i].view.row(row), bytes), 0)
            << "seed " << kLinearSeed << ", M " << m << ", layer " << i << ", row " << row;
      }
    }
  }
}

TEST_P(Linear, OutlivesItsBackend) {
  const OwnedTensor w_t = tensor(DType::kF32, 3, 4);
  const auto linear = make_backend(current_kernels())->make_linear({.w_t = w_t.view()});
  const Matrix x = random_matrix(2, 4, random_);
  Matrix y(2, 3);
  linear->apply(x.view(), y.view());
  expect_within(multiply(Bounded(x.view()), w_t.view()), y.view());
}

}  // namespace
}  // namespace neuronmm::cpu
