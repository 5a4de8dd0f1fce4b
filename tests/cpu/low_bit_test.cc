// This test compares products with weights of 6 and 4 bits and with int8 weights of the same bytes.
// The results must have the same bits for every instruction set, number of rows and shape. The
// tests linear_test.cc and mlp_test.cc check that the int8 results are right.

#include "ops/low_bit.h"

#include <cstring>
#include <memory>
#include <random>

#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kLowBitSeed = 17;
const LowBitFormat kLowBitFormats[] = {{6, 128}, {4, 32}, {4, 16}};

// A random weight with all codes that the format allows, and the same bytes as an int8 weight.
class BothWays {
 public:
  BothWays(const LowBitFormat& format, int64_t rows, int64_t columns, std::mt19937_64& random)
      : low_(ops::pack_codes(codes(format, rows, columns, random))),
        int8_{rows, columns, {}, low_.scales} {
    int8_.values.resize(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < rows; ++i) {
      to_bytes(low_.view(), i * columns, columns, int8_.values.data() + i * columns);
    }
  }
  ops::WeightView view(bool low) const { return (low ? low_ : int8_).view(); }

 private:
  static ops::Codes codes(const LowBitFormat& format, int64_t rows, int64_t columns,
                          std::mt19937_64& random) {
    ops::Codes codes = {format, rows, columns, {}, {}, {}};
    for (int64_t i = 0; i < rows * columns; ++i) {
      codes.q.push_back(static_cast<uint8_t>(format.bits == 4 ? random() % 16 : 1 + random() % 63));
    }
    for (int64_t i = 0; i < rows * ((columns + 127) / 128); ++i) {
      codes.scales.push_back(bf16::from_float(1e-3f * static_cast<float>(1 + random() % 99)));
    }
    const int64_t groups = rows * ops::groups_of_row(format, columns);
    while (std::ssize(codes.groups) < groups) {
      const auto group = static_cast<uint8_t>(random());
      if (ops::GroupOf4Bits::of(group).fits()) codes.groups.push_back(group);
    }
    return codes;
  }

  ops::QuantizedWeight low_, int8_;
};

class LowBit : public OnEveryTarget {
 protected:
  BothWays weight(int64_t rows, int64_t columns) { return {format_, rows, columns, random_}; }

  // Calls body() once per format. weight() then makes weights of that format.
  template <typename Body>
  void for_every_format(const Body& body) {
    for (const LowBitFormat& format : kLowBitFormats) {
      format_ = format;
      SCOPED_TRACE(testing::Message() << "seed " << kLowBitSeed << ", " << format.bits
                                      << " bits, groups of " << format.group);
      body();
    }
  }
  template <typename Layer>
  void expect_same_bits(const Layer& low, const Layer& int8, int64_t m, int64_t k, int64_t n) {
    SCOPED_TRACE(testing::Message() << "M " << m << ", K " << k << ", N " << n);
    const Matrix x = random_matrix(m, k, random_);
    Matrix expected(m, n), y(m, n);
    int8->apply(x.view(), expected.view());
    low->apply(x.view(), y.view());
    const size_t bytes = static_cast<size_t>(m * n) * sizeof(float);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0);
  }
  // Compares layers. make(low) returns the layer's weight in few bits or in int8.
  template <typename Make>
  void expect_same_linear(const Make& make, const std::vector<int64_t>& rows) {
    const auto low = backend_->make_linear(make(true)), int8 = backend_->make_linear(make(false));
    const ops::LinearWeight weight = make(true);
    for (const int64_t m : rows) {
      expect_same_bits(low, int8, m, weight.in_features(), weight.out_features());
    }
  }

  std::mt19937_64 random_{kLowBitSeed};
  LowBitFormat format_;
  std::unique_ptr<ops::Backend> backend_ = make_backend(kernels_);
};
NMM_ON_EVERY_TARGET(LowBit);
NMM_WITH_EMULATED_AMX(LowBit);

std::vector<int64_t> up_to(int64_t most) {
  std::vector<int64_t> all;
  for (int64_t m = 1; m <= most; ++m) all.push_back(m);
  return all;
}

TEST_P(LowBit, MatchesInt8ForEveryNumberOfRows) {
  for_every_format([&] {
    const BothWays w = weight(70, 300);
    std::vector<int64_t> rows = up_to(50);
    rows.insert(rows.end(), {64, 97, 240, 241});
    expect_same_linear([&](bool low) { return ops::LinearWeight{.w_t = w.view(low)}; }, rows);
  });
}

TEST_P(LowBit, MatchesInt8ForEveryDepth) {
  for_every_format([&] {
    std::vector<int64_t> depths = up_to(33);
    depths.insert(depths.end(), {63, 64, 127, 128, 129, 144, 160, 255, 256, 1000, 2048, 2049});
    for (const int64_t k : depths) {
      const BothWays w = weight(40, k);
      expect_same_linear([&](bool low) { return ops::LinearWeight{.w_t = w.view(low)}; },
                         {1, 3, 12, 19, 61});
    }
  });
}

TEST_P(LowBit, MatchesInt8ForEveryWidth) {
  for_every_format([&] {
    for (const int64_t n : {1, 4, 15, 16, 17, 31, 32, 33, 48, 65, 130, 1100}) {
      const BothWays w = weight(n, 133);
      expect_same_linear([&](bool low) { return ops::LinearWeight{.w_t = w.view(low)}; },
                         {1, 2, 5, 11, 70});
    }
  });
}

TEST_P(LowBit, MatchesInt8ForFactorsPivotsAndBias) {
  const OwnedTensor bias(DType::kF32, {90}, random_values(90, random_, 10.0f));
  std::vector<int32_t> index;
  for (int32_t i = 0; i < 64; ++i) index.push_back(3 * i + 1);
  for_every_format([&] {
    const BothWays u = weight(64, 260), v = weight(90, 64), map_in = weight(64, 196);
    const BothWays map_out = weight(136, 64), w = weight(64, 150);
    const std::vector<int64_t> rows = {1, 6, 13, 55};
    expect_same_linear(
        [&](bool low) {
          return ops::LinearWeight{.u_t = u.view(low), .v_t = v.view(low), .bias = bias.view()};
        },
        rows);
    expect_same_linear(
        [&](bool low) {
          return ops::LinearWeight{.w_t = v.view(low), .in = {index, map_in.view(low)}};
        },
        rows);
    expect_same_linear(
        [&](bool low) {
          return ops::LinearWeight{.w_t = w.view(low), .out = {index, map_out.view(low)}};
        },
        rows);
  });
}

// Gate and up have one format and down another; hidden rows have two blocks of K.
TEST_P(LowBit, MatchesInt8InTheFusedMlp) {
  for_every_format([&] {
    const int64_t h = 140, i = 2085;
    const BothWays gate = weight(i, h), up = weight(i, h);
    const BothWays down(kLowBitFormats[0], h, i, random_);
    const auto make = [&](bool low) {
      return backend_->make_mlp(
          ops::MlpWeight{{.w_t = gate.view(low)}, {.w_t = up.view(low)}, {.w_t = down.view(low)}});
    };
    const auto low = make(true), int8 = make(false);
    for (const int64_t m : {1, 4, 13, 40}) expect_same_bits(low, int8, m, h, h);
  });
}

// Layers with one input and with several formats share its packing.
TEST_P(LowBit, LayersRunTogetherHaveTheirOwnBits) {
  const int64_t k = 150;
  const BothWays q(kLowBitFormats[2], 330, k, random_), v(kLowBitFormats[0], 33, k, random_);
  std::vector<std::unique_ptr<ops::Linear>> linears;
  linears.push_back(backend_->make_linear({.w_t = q.view(true)}));
  linears.push_back(backend_->make_linear({.w_t = v.view(false)}));
  linears.push_back(backend_->make_linear({.w_t = v.view(true)}));
  const ops::Linear* const together[] = {linears[0].get(), linears[1].get(), linears[2].get()};
  for (const int64_t m : {1, 13, 250}) {
    const Matrix x = random_matrix(m, k, random_);
    Matrix ys[] = {Matrix(m, 330), Matrix(m, 33), Matrix(m, 33)};
    const MutableMatrixView views[] = {ys[0].view(), ys[1].view(), ys[2].view()};
    backend_->apply_together(together, x.view(), views);
    for (size_t i = 0; i < 3; ++i) {
      Matrix alone(m, ys[i].columns());
      together[i]->apply(x.view(), alone.view());
      const size_t bytes = static_cast<size_t>(m * alone.columns()) * sizeof(float);
      EXPECT_EQ(std::memcmp(alone.data(), ys[i].data(), bytes), 0) << "layer " << i << ", M " << m;
    }
  }
}

TEST_P(LowBit, BitsDoNotDependOnThreads) {
  for_every_format([&] {
    const BothWays w = weight(1100, 260);
    const auto linear = backend_->make_linear({.w_t = w.view(true)});
    for (const int64_t m : {1, 64}) {
      const Matrix x = random_matrix(m, 260, random_);
      Matrix expected(m, 1100), y(m, 1100);
      set_num_threads(1);
      linear->apply(x.view(), expected.view());
      set_num_threads(3);
      linear->apply(x.view(), y.view());
      const size_t bytes = static_cast<size_t>(m * 1100) * sizeof(float);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << "M " << m;
    }
  });
}

}  // namespace
}  // namespace neuronmm::cpu
