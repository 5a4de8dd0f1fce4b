// Tests the head and its losses, and the error of layers, with finite differences and by
// invariants.

#include <cmath>

#include <gtest/gtest.h>

#include "finite_differences.h"
#include "training/head.h"
#include "training/layer_training.h"

namespace neuronmm::training {
namespace {

constexpr int64_t kHidden = 7, kVocab = 11;
constexpr Precision kPlain = Precision::kFp32;

// A head with its tensors.
struct OwnedHead {
  Parameter<double> norm, projection;
  Head<double> head;

  explicit OwnedHead(const std::string& name, double cap = 0.0) {
    io::ModelConfig config;
    config.rms_norm_eps = 0.01;
    config.gain_offset = 1.0;
    config.logit_divisor = 0.25;
    config.logit_cap = cap;
    norm.set(name + "norm", drawn_rows<double>(name + "norm", 1, kHidden));
    projection.set(name + "head", drawn_rows<double>(name + "head", kVocab, kHidden));
    head = Head<double>(config, norm, projection);
  }
};

using Loss = std::function<double(MatrixView<const double>, Rows<double>*)>;

// Compares all gradients of a loss with differences. The loss is scaled by 0.5.
void compare(OwnedHead& of, int64_t rows, const Loss& loss) {
  of.norm.train();
  of.projection.train();
  Rows<double> hidden = drawn_rows<double>("hidden", rows, kHidden), gradient;
  loss(hidden.view(), &gradient);
  const auto expect_slope = [&](double* entry, double expected, const char* what) {
    constexpr double kStep = 6e-6;
    const double old = *entry;
    const auto at = [&](double by) {
      *entry = old + by;
      of.projection.changed();
      return loss(hidden.view(), nullptr);
    };
    const double above = at(kStep), below = at(-kStep);
    at(0.0);
    EXPECT_NEAR(expected, 0.5 * (above - below) / (2.0 * kStep), 1e-6 * std::abs(expected) + 3e-8)
        << what;
  };
  for (int64_t i = 0; i < hidden.size(); ++i) {
    expect_slope(hidden.data() + i, gradient.data()[i], "hidden");
  }
  for (int64_t i = 0; i < kHidden; ++i) {
    expect_slope(of.norm.value.data() + i, of.norm.gradient.data()[i], "norm");
  }
  for (int64_t i = 0; i < kVocab * kHidden; ++i) {
    expect_slope(of.projection.value.data() + i, of.projection.gradient.data()[i], "head");
  }
}

TEST(Losses, CrossEntropy) {
  for (const double cap : {0.0, 3.0}) {
    OwnedHead of("a", cap);
    const TokenSequence labels = {3, 0, 10};
    compare(of, 3, [&](MatrixView<const double> hidden, Rows<double>* gradient) {
      return cross_entropy(of.head, hidden, labels, kPlain, 0.5, gradient);
    });
  }
}

TEST(Losses, Divergence) {
  for (const double cap : {0.0, 3.0}) {
    OwnedHead of("a", cap), teacher("b", cap);
    const Rows<double> targets = drawn_rows<double>("targets", 3, kHidden);
    compare(of, 3, [&](MatrixView<const double> hidden, Rows<double>* gradient) {
      return divergence<double>(of.head, hidden, teacher.head, targets.view(), kPlain, 0.5,
                                gradient);
    });
  }
}

TEST(Losses, ATeacherEqualToTheStudentTeachesNothing) {
  OwnedHead of("a");
  const Rows<double> hidden = drawn_rows<double>("hidden", 5, kHidden);
  Rows<double> gradient;
  EXPECT_NEAR(
      divergence<double>(of.head, hidden.view(), of.head, hidden.view(), kPlain, 1.0, &gradient),
      0.0, 1e-14);
  for (int64_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient.data()[i], 0.0, 1e-15);
}

// A teacher that is certain of one label gives the gradient of cross entropy.
TEST(Losses, ACertainTeacherIsALabel) {
  OwnedHead of("a"), teacher("b");
  const Rows<double> hidden = drawn_rows<double>("hidden", 1, kHidden);
  Tape<double> silent(kPlain, false);
  for (int64_t i = 0; i < teacher.projection.size(); ++i) {
    teacher.projection.value.data()[i] *= 1000.0;
  }
  teacher.projection.changed();
  const Value64 z = teacher.head.logits(silent, make_tensor(copy_of<double>(hidden.view())));
  const auto label = static_cast<text::TokenId>(
      std::max_element(z->data.data(), z->data.data() + kVocab) - z->data.data());
  Rows<double> of_divergence, of_label;
  divergence<double>(of.head, hidden.view(), teacher.head, hidden.view(), kPlain, 1.0,
                     &of_divergence);
  cross_entropy<double>(of.head, hidden.view(), TokenSequence{label}, kPlain, 1.0, &of_label);
  for (int64_t i = 0; i < kHidden; ++i) {
    EXPECT_NEAR(of_divergence.data()[i], of_label.data()[i], 1e-9);
  }
}

// Labels are drawn as often as they are likely, and the loss is that of the drawn ones.
TEST(Losses, OwnLabelsFollowTheModelsDistribution) {
  OwnedHead of("a");
  constexpr int64_t kDraws = 20'000;
  const Rows<double> row = drawn_rows<double>("hidden", 1, kHidden);
  Rows<double> hidden(kDraws, kHidden);
  for (int64_t i = 0; i < kDraws; ++i) std::copy_n(row.data(), kHidden, hidden.row(i));
  TokenSequence labels;
  Rows<double> gradient, expected;
  const double loss =
      own_label_loss<double>(of.head, hidden.view(), {7, 3}, kPlain, labels, &gradient);
  EXPECT_NEAR(loss, cross_entropy<double>(of.head, hidden.view(), labels, kPlain, 1.0, &expected),
              1e-9 * loss);
  EXPECT_TRUE(std::equal(gradient.data(), gradient.data() + gradient.size(), expected.data()));
  Tape<double> silent(kPlain, false);
  const Value64 z = of.head.logits(silent, make_tensor(copy_of<double>(row.view())));
  double total = 0.0;
  for (int64_t v = 0; v < kVocab; ++v) total += std::exp(z->data.data()[v]);
  for (int64_t v = 0; v < kVocab; ++v) {
    const double p = std::exp(z->data.data()[v]) / total;
    const auto found = static_cast<double>(std::count(labels.begin(), labels.end(), v));
    EXPECT_NEAR(found / kDraws, p, 5.0 * std::sqrt(p * (1.0 - p) / kDraws)) << v;
  }
}

TEST(Losses, OwnLabelsDependOnSeedSequenceAndPositionAlone) {
  OwnedHead of("a");
  const Rows<double> hidden = drawn_rows<double>("hidden", 40, kHidden);
  const auto labels = [&](const LabelSeed& seed, int64_t rows) {
    TokenSequence drawn_labels;
    own_label_loss<double>(of.head, hidden.view().row_range(0, rows), seed, kPlain, drawn_labels,
                           nullptr);
    return drawn_labels;
  };
  const TokenSequence all = labels({7, 3}, 40), first = labels({7, 3}, 10);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
  EXPECT_NE(all, labels({8, 3}, 40));
  EXPECT_NE(all, labels({7, 4}, 40));
}

TEST(Losses, ErrorOfALayer) {
  RightFactor<double> metric;
  Rows<double> gamma(4, 4);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      gamma.row(i)[j] = drawn("gamma", i + j) + (i == j ? 3.0 : 0.0);
    }
  }
  metric.pack(gamma.view(), kPlain);
  const RightFactor<double>* const metrics[] = {nullptr, &metric};
  for (const RightFactor<double>* const of : metrics) {
    Rows<double> y = drawn_rows<double>("y", 5, 4), gradient;
    const Rows<double> target = drawn_rows<double>("target", 5, 4);
    layer_loss<double>(y.view(), target.view(), {of}, kPlain, 0.5, &gradient);
    for (int64_t i = 0; i < y.size(); ++i) {
      constexpr double kStep = 6e-6;
      const double old = y.data()[i];
      const auto at = [&](double by) {
        y.data()[i] = old + by;
        return layer_loss<double>(y.view(), target.view(), {of}, kPlain, 1.0, nullptr);
      };
      const double slope = (at(kStep) - at(-kStep)) / (2.0 * kStep);
      at(0.0);
      EXPECT_NEAR(gradient.data()[i], 0.5 * slope, 1e-6 * std::abs(slope) + 3e-8);
    }
    EXPECT_EQ(layer_loss<double>(target.view(), target.view(), {of}, kPlain, 1.0, nullptr), 0.0);
  }
}

}  // namespace
}  // namespace neuronmm::training
