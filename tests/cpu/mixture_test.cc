// Mixtures of experts on the CPU, compared with naive fp64 code, with the reference, and with the
// same experts as MLPs of their own.

#include "ops/mixture.h"

#include <cstring>
#include <memory>
#include <random>

#include "cpu/error_bounds.h"
#include "cpu/expert_cache.h"
#include "cpu/on_every_target.h"
#include "ops/drawn_codes.h"
#include "ops/limited_experts.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"
#include "ops/reference.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kMixtureSeed = 17;

// The forms in which the experts of a test have their weights.
enum class ExpertForm {
  kFp32,
  kBf16,
  kInt8,
  kInt6,
  kInt4,
  kInt4Of32,  // a multiplier for 32 columns
  kCoded,
  kTable,  // the codes of MXFP4 are of this kind
  kLowRank,
  kMixed
};
constexpr ExpertForm kAllForms[] = {ExpertForm::kFp32,  ExpertForm::kBf16,  ExpertForm::kInt8,
                                    ExpertForm::kInt6,  ExpertForm::kInt4,  ExpertForm::kInt4Of32,
                                    ExpertForm::kCoded, ExpertForm::kTable, ExpertForm::kLowRank,
                                    ExpertForm::kMixed};

// Draws mixtures and owns their weights.
class DrawnMixtures {
 public:
  explicit DrawnMixtures(std::mt19937_64& random) : random_(random) {}

  struct Sizes {
    int64_t experts = 5, active = 2, hidden = 150, width = 270;
    bool bias = true;
  };
  ops::MixtureWeight draw(const Sizes& sizes, ExpertForm form) {
    const auto& [experts, active, hidden, width, bias] = sizes;
    ops::MixtureWeight mixture = {.router = {.w_t = floats(DType::kF32, experts, hidden)},
                                  .active = active};
    for (int64_t e = 0; e < experts; ++e) {
      // Every expert of a mixed layer has another form.
      const ExpertForm own =
          form == ExpertForm::kMixed ? kAllForms[static_cast<size_t>(e) % 9] : form;
      mixture.experts.push_back({.gate = projection(own, width, hidden, bias),
                                 .up = projection(own, width, hidden, bias),
                                 .down = projection(own, hidden, width, bias)});
    }
    return mixture;
  }
  // Draws experts that share bases of these ranks.
  ops::MixtureWeight draw_on_bases(const Sizes& sizes, ExpertForm form, int64_t in, int64_t out) {
    ops::MixtureWeight mixture = draw({.experts = sizes.experts,
                                       .active = sizes.active,
                                       .hidden = sizes.hidden,
                                       .width = sizes.width,
                                       .bias = false},
                                      ExpertForm::kFp32);
    mixture.input = projection(form, in, sizes.hidden, false);
    mixture.output = projection(form, sizes.hidden, out, false);
    for (ops::MlpWeight& expert : mixture.experts) {
      expert.gate = projection(form, sizes.width, in, sizes.bias);
      expert.up = projection(form, sizes.width, in, sizes.bias);
      expert.down = projection(form, out, sizes.width, sizes.bias);
    }
    return mixture;
  }
  TensorView floats(DType dtype, int64_t rows, int64_t columns) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    tensors_.push_back(std::make_unique<OwnedTensor>(
        dtype, Shape{rows, columns}, random_values(rows * columns, random_, deviation)));
    return tensors_.back()->view();
  }
  // Makes all tokens choose this expert first.
  void prefer(ops::MixtureWeight& mixture, int64_t expert) {
    std::vector<float> bias(static_cast<size_t>(mixture.count()));
    bias[static_cast<size_t>(expert)] = 1e6f;
    tensors_.push_back(std::make_unique<OwnedTensor>(DType::kF32, Shape{mixture.count()}, bias));
    mixture.router.bias = tensors_.back()->view();
  }

 private:
  ops::WeightView rounded(const LowBitFormat& format, int64_t rows, int64_t columns) {
    rounded_.push_back(std::make_unique<ops::QuantizedWeight>(
        ops::quantize(floats(DType::kF32, rows, columns), format)));
    return rounded_.back()->view();
  }
  ops::LinearWeight projection(ExpertForm form, int64_t n, int64_t k, bool bias) {
    ops::LinearWeight weight;
    switch (form) {
      case ExpertForm::kInt8:
        weight.w_t = rounded({8}, n, k);
        break;
      case ExpertForm::kInt6:
        weight.w_t = rounded({6}, n, k);
        break;
      case ExpertForm::kInt4:
        weight.w_t = rounded({4, 16}, n, k);
        break;
      case ExpertForm::kInt4Of32:
        weight.w_t = rounded({4, 32}, n, k);
        break;
      case ExpertForm::kCoded:
      case ExpertForm::kTable:
        coded_.push_back(std::make_unique<DrawnCodes>(
            form == ExpertForm::kTable ? CodeKind::kTable4 : CodeKind::kInt4, n, k, 32, false,
            random_));
        weight.w_t = coded_.back()->view();
        break;
      case ExpertForm::kLowRank:
        weight.u_t = floats(DType::kF32, 21, k);
        weight.v_t = rounded({8}, n, 21);
        break;
      default:
        weight.w_t = floats(form == ExpertForm::kBf16 ? DType::kBF16 : DType::kF32, n, k);
    }
    if (!bias) return weight;
    tensors_.push_back(
        std::make_unique<OwnedTensor>(DType::kF32, Shape{n}, random_values(n, random_)));
    weight.bias = tensors_.back()->view();
    return weight;
  }

  std::mt19937_64& random_;
  std::vector<std::unique_ptr<OwnedTensor>> tensors_;
  std::vector<std::unique_ptr<ops::QuantizedWeight>> rounded_;
  std::vector<std::unique_ptr<DrawnCodes>> coded_;
};

class CpuMixtures : public OnEveryTarget {
 protected:
  Matrix apply(const ops::MixtureWeight& weight, const Matrix& x) const {
    Matrix y(x.rows(), x.columns());
    backend_->make_mixture(weight)->apply(x.view(), y.view());
    return y;
  }
  // Returns the sum of the outputs of the chosen experts in fp64. output(expert) returns the
  // Bounded outputs of one expert for all of x.
  template <typename Output>
  Bounded weighted_sum(const ops::MixtureWeight& weight, const Matrix& x,
                       const Output& output) const {
    const auto routed = ops::Router(*backend_, weight).choose(x.view());
    Bounded sum(x.rows(), x.columns());
    for (int64_t e = 0; e < std::ssize(weight.experts); ++e) {
      const Bounded of_expert = output(weight.experts[static_cast<size_t>(e)]);
      for (int64_t i = 0; i < std::ssize(routed); ++i) {
        const ops::RoutedExpert& chosen = routed[static_cast<size_t>(i)];
        if (chosen.expert != e + weight.first_expert) continue;
        const int64_t row = i / weight.active;
        for (int64_t j = 0; j < x.columns(); ++j) {
          const double value = double{chosen.weight} * of_expert.at(of_expert.value, row, j);
          sum.at(sum.value, row, j) += value;
          // The product is rounded, and so is each of the sums that it is part of.
          sum.at(sum.error, row, j) +=
              double{chosen.weight} * of_expert.at(of_expert.error, row, j) +
              static_cast<double>(weight.active + 1) * kUnit * std::abs(value);
        }
      }
    }
    return sum;
  }
  // Expects the sum of the outputs that MLPs of their own have.
  void expect_sum_of_mlps(const ops::MixtureWeight& weight, const Matrix& x) const {
    const auto own_mlp = [&](const ops::MlpWeight& expert) {
      Matrix y(x.rows(), x.columns());
      backend_->make_mlp(expert)->apply(x.view(), y.view());
      return Bounded(y.view());
    };
    expect_within(weighted_sum(weight, x, own_mlp), apply(weight, x).view());
  }
  static void expect_same_bits(ConstMatrixView expected, ConstMatrixView found) {
    ASSERT_EQ(expected.rows, found.rows);
    for (int64_t i = 0; i < expected.rows; ++i) {
      ASSERT_EQ(std::memcmp(expected.row(i), found.row(i),
                            static_cast<size_t>(expected.columns) * sizeof(float)),
                0)
          << "row " << i;
    }
  }

  std::mt19937_64 random_{kMixtureSeed};
  DrawnMixtures drawn_{random_};
  std::unique_ptr<ops::Backend> backend_ = make_backend(kernels_);
};
NMM_ON_EVERY_TARGET(CpuMixtures);
NMM_WITH_EMULATED_AMX(CpuMixtures);

TEST_P(CpuMixtures, AreTheWeightedSumsOfNaiveMlps) {
  for (const ExpertForm form : {ExpertForm::kFp32, ExpertForm::kBf16, ExpertForm::kInt8,
                                ExpertForm::kInt6, ExpertForm::kInt4, ExpertForm::kLowRank}) {
    const bool bias = form != ExpertForm::kInt6;
    ops::MixtureWeight weight = drawn_.draw({.bias = bias}, form);
    weight.divided = form != ExpertForm::kInt8;
    for (const int64_t m : {1, 3, 37}) {
      SCOPED_TRACE(testing::Message() << "seed " << kMixtureSeed << ", form "
                                      << static_cast<int>(form) << ", M " << m);
      const Matrix x = random_matrix(m, 150, random_);
      const auto naive = [&](const ops::MlpWeight& expert) {
        return mlp(Bounded(x.view()), expert);
      };
      expect_within(weighted_sum(weight, x, naive), apply(weight, x).view());
    }
  }
}

TEST_P(CpuMixtures, AreTheSumsOfMlpsOfTheirOwn) {
  for (const ExpertForm form : kAllForms) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form));
    const ops::MixtureWeight weight =
        drawn_.draw({.experts = 8, .active = 3, .hidden = 45, .width = 83}, form);
    for (const int64_t m : {1, 2, 29}) expect_sum_of_mlps(weight, random_matrix(m, 45, random_));
  }
}

TEST_P(CpuMixtures, ATokenHasTheSameBitsInEveryBatchAndOnEveryNumberOfThreads) {
  for (const ExpertForm form : kAllForms) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form));
    const ops::MixtureWeight weight =
        drawn_.draw({.experts = 8, .active = 3, .hidden = 135, .width = 140}, form);
    const Matrix x = random_matrix(75, 135, random_);
    set_num_threads(2);
    const Matrix expected = apply(weight, x);
    for (const int threads : {1, 7}) {
      set_num_threads(threads);
      expect_same_bits(expected.view(), apply(weight, x).view());
      const auto layer = backend_->make_mixture(weight);
      for (int64_t i = 0; i < x.rows(); i += 11) {
        Matrix y(1, 135);
        layer->apply(x.view().row_range(i, 1), y.view());
        expect_same_bits(expected.view().row_range(i, 1), y.view());
      }
    }
  }
}

// The experts read the product with one basis, and their sum is multiplied by the other.
TEST_P(CpuMixtures, SharedBasesAreLinearLayersAroundTheExperts) {
  constexpr int64_t kHidden = 150, kIn = 96, kOut = 64;
  for (const ExpertForm form : {ExpertForm::kFp32, ExpertForm::kBf16, ExpertForm::kInt8,
                                ExpertForm::kInt6, ExpertForm::kInt4}) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form));
    const ops::MixtureWeight weight = drawn_.draw_on_bases(
        {.experts = 5, .active = 2, .hidden = kHidden, .width = 70}, form, kIn, kOut);
    for (const int64_t m : {1, 3, 75}) {
      const Matrix x = random_matrix(m, kHidden, random_);
      Matrix z(m, kIn), sum(m, kOut), expected(m, kHidden);
      backend_->make_linear(weight.input)->apply(x.view(), z.view());
      const auto routed = ops::Router(*backend_, weight).choose(x.view());
      for (size_t i = 0; i < routed.size(); ++i) {  // in ascending order of experts, as always
        const auto row = static_cast<int64_t>(i) / weight.active;
        const auto& expert = weight.experts[static_cast<size_t>(routed[i].expert)];
        Matrix y(1, kOut);
        backend_->make_mlp(expert)->apply(z.view().row_range(row, 1), y.view());
        for (int64_t j = 0; j < kOut; ++j) sum.row(row)[j] += routed[i].weight * y.row(0)[j];
      }
      backend_->make_linear(weight.output)->apply(sum.view(), expected.view());
      const Matrix found = apply(weight, x);
      // The sums of two products may be rounded in another order, which rounding to int8 enlarges.
      const double tolerance = form == ExpertForm::kFp32 || form == ExpertForm::kBf16 ? 1e-5 : 2e-2;
      for (int64_t i = 0; i < m * kHidden; ++i) {
        ASSERT_NEAR(found.data()[i], expected.data()[i], tolerance);
      }
    }
  }
}

// 40 experts with 130 tokens each are more rows than are computed at once.
TEST_P(CpuMixtures, ManyTokensAreSeveralBlocks) {
  const ops::MixtureWeight weight = drawn_.draw(
      {.experts = 40, .active = 40, .hidden = 20, .width = 36, .bias = false}, ExpertForm::kInt4);
  expect_sum_of_mlps(weight, random_matrix(130, 20, random_));
}

TEST_P(CpuMixtures, AllTokensMayWantOneExpert) {
  for (const ExpertForm form : {ExpertForm::kFp32, ExpertForm::kInt8, ExpertForm::kInt6,
                                ExpertForm::kInt4, ExpertForm::kInt4Of32, ExpertForm::kTable}) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form));
    ops::MixtureWeight weight = drawn_.draw({.active = 1, .hidden = 45, .width = 270}, form);
    drawn_.prefer(weight, 3);
    const Matrix x = random_matrix(400, 45, random_);
    set_num_threads(3);
    Matrix expected(x.rows(), 45);
    backend_->make_mlp(weight.experts[3])->apply(x.view(), expected.view());
    expect_same_bits(expected.view(), apply(weight, x).view());
  }
}

// With AMX, 290 rows are one tile more than a step has, and K is deeper than a piece of weights.
TEST_P(CpuMixtures, RowsOfOneExpertMayBeMoreThanOneStep) {
  ops::MixtureWeight weight = drawn_.draw(
      {.experts = 2, .active = 1, .hidden = 600, .width = 600, .bias = false}, ExpertForm::kInt4);
  drawn_.prefer(weight, 1);
  set_num_threads(1);
  for (const int64_t m : {290, 400}) expect_sum_of_mlps(weight, random_matrix(m, 600, random_));
}

// One, two and three tiles of AMX, whose codes are expanded while other tiles are multiplied, in
// layers that are deeper than some pieces of weights and end within a piece, a group or a panel.
TEST_P(CpuMixtures, RowsOfAnExpertMayBeAnyNumberOfTiles) {
  for (const ExpertForm form :
       {ExpertForm::kInt8, ExpertForm::kInt6, ExpertForm::kInt4, ExpertForm::kInt4Of32}) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form));
    ops::MixtureWeight weight =
        drawn_.draw({.experts = 2, .active = 1, .hidden = 648, .width = 330, .bias = false}, form);
    drawn_.prefer(weight, 0);
    const auto layer = backend_->make_mixture(weight);
    const Matrix x = random_matrix(100, 648, random_);
    Matrix one_by_one(x.rows(), x.columns());
    for (int64_t i = 0; i < x.rows(); ++i) {
      layer->apply(x.view().row_range(i, 1), one_by_one.view().row_range(i, 1));
    }
    for (const int64_t m : {8, 16, 17, 32, 33, 47, 64, 65, 100}) {
      SCOPED_TRACE(m);
      Matrix y(m, x.columns());
      layer->apply(x.view().row_range(0, m), y.view());
      expect_same_bits(one_by_one.view().row_range(0, m), y.view());
    }
  }
}

// The limits hold one expert, some of the experts of a layer, and nearly all of both layers.
TEST_P(CpuMixtures, ExpertsThatAreReadAgainGiveTheSameBits) {
  const auto sizes = DrawnMixtures::Sizes{.experts = 8, .active = 3, .hidden = 45, .width = 83};
  for (const ExpertForm form : kAllForms) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form));
    const ops::MixtureWeight layers[] = {drawn_.draw(sizes, form), drawn_.draw(sizes, form)};
    const ops::MixtureWeight* const both[] = {&layers[0], &layers[1]};
    const Matrix x = random_matrix(40, 45, random_);
    const Matrix first = apply(layers[0], x), second = apply(layers[1], first);
    int64_t all_bytes = 0;
    for (const ops::MixtureWeight& layer : layers) {
      for (const ops::MlpWeight& expert : layer.experts) {
        all_bytes += ExpertCache(ForeignWeights::kNearest).packed_bytes(expert);
      }
    }
    for (const int64_t limit : {int64_t{1}, all_bytes / 4, all_bytes * 15 / 16}) {
      const auto limited = make_backend(kernels_, KeysAndValues::kAuto, ForeignWeights::kNearest,
                                        {.bytes = limit, .origin = "of the test"});
      dynamic_cast<const ops::LimitedExperts&>(*limited).plan_experts(both, 0);
      const auto one = limited->make_mixture(layers[0]), two = limited->make_mixture(layers[1]);
      for (int64_t i = 0; i < x.rows(); i += 13) {
        Matrix y(1, 45), z(1, 45);
        one->apply(x.view().row_range(i, 1), y.view());
        two->apply(y.view(), z.view());
        expect_same_bits(second.view().row_range(i, 1), z.view());
      }
      Matrix y(40, 45), z(40, 45);
      one->apply(x.view(), y.view());
      two->apply(y.view(), z.view());
      expect_same_bits(second.view(), z.view());
    }
  }
}

TEST_P(CpuMixtures, ExpertsOfOtherProcessesAddNothing) {
  const ops::MixtureWeight whole =
      drawn_.draw({.experts = 6, .active = 3, .hidden = 45, .width = 83}, ExpertForm::kInt8);
  const Matrix x = random_matrix(17, 45, random_);
  for (const auto& [first, end] : {std::pair(0, 2), std::pair(2, 2), std::pair(2, 6)}) {
    ops::MixtureWeight part = whole;
    part.first_expert = first;
    part.experts.assign(whole.experts.begin() + first, whole.experts.begin() + end);
    expect_sum_of_mlps(part, x);
  }
}

TEST_P(CpuMixtures, EveryActivationIsThatOfTheReference) {
  ops::MixtureWeight weight =
      drawn_.draw({.experts = 4, .active = 2, .hidden = 45, .width = 83}, ExpertForm::kFp32);
  Matrix x = random_matrix(9, 45, random_);
  for (int64_t i = 0; i < 9 * 45; ++i) x.data()[i] *= 4.0f;  // beyond the limits of the clamp
  for (const Activation activation :
       {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwiglu}) {
    for (ops::MlpWeight& expert : weight.experts) {
      expert.activation = activation;
      expert.clamp = {.limit = 3.0f, .alpha = 1.5f};
    }
    Matrix expected(9, 45);
    ops::make_reference_backend()->make_mixture(weight)->apply(x.view(), expected.view());
    const Matrix y = apply(weight, x);
    for (int64_t i = 0; i < 9 * 45; ++i) {
      ASSERT_NEAR(y.data()[i], expected.data()[i], 2e-4) << static_cast<int>(activation);
    }
  }
}

// Experts with pivots are MLPs of their own.
TEST_P(CpuMixtures, PivotedExpertsAreComposed) {
  ops::MixtureWeight weight =
      drawn_.draw({.hidden = 45, .width = 83, .bias = false}, ExpertForm::kFp32);
  for (ops::MlpWeight& expert : weight.experts) {
    expert.in = {.index = {1, 4, 9, 44}, .map_t = drawn_.floats(DType::kF32, 4, 41)};
    expert.gate.w_t = drawn_.floats(DType::kF32, 83, 4);
    expert.up.w_t = drawn_.floats(DType::kF32, 83, 4);
  }
  for (const int64_t m : {1, 12}) expect_sum_of_mlps(weight, random_matrix(m, 45, random_));
}

TEST_P(CpuMixtures, NoTokensAreFine) {
  Matrix x(0, 150), y(0, 150);
  backend_->make_mixture(drawn_.draw({}, ExpertForm::kInt4))->apply(x.view(), y.view());
}

}  // namespace
}  // namespace neuronmm::cpu
