// Compares the fused operations with torch's own operations in fp64: values and gradients.

#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "finetune/torch_adamw.h"
#include "finetune/torch_attention.h"
#include "finetune/torch_divergence.h"
#include "finetune/torch_gate.h"
#include "finetune/torch_norm.h"
#include "finetune/torch_plain.h"
#include "finetune/torch_product.h"
#include "finetune/torch_rotation.h"

namespace neuronmm::finetune {
namespace {

using Tensors = std::vector<at::Tensor>;
using Operation = std::function<at::Tensor(const Tensors&)>;

at::Tensor random_tensor(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes, at::TensorOptions(at::kDouble)).to(type);
}

// Returns the relative size of one rounding.
double rounding_of(at::ScalarType type) {
  if (type == at::kBFloat16) return 0x1p-9;
  return type == at::kFloat ? 0x1p-24 : 0x1p-53;
}

// Returns the largest difference relative to the largest element. Small elements are sums with
// larger ones, so that their own size does not matter.
double difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  return ((found.to(at::kDouble) - wide).abs().max() / wide.abs().max()).item<double>();
}

// Compares `fused` of the inputs with `plain` of the same numbers in fp64: the values, and the
// gradients of a random combination of the result.
void expect_same(const Tensors& inputs, const Operation& fused, const Operation& plain,
                 double tolerance) {
  Tensors ours, theirs;
  for (const at::Tensor& input : inputs) {
    ours.push_back(input.detach().clone().requires_grad_(true));
    theirs.push_back(input.to(at::kDouble).detach().clone().requires_grad_(true));
  }
  const at::Tensor found = fused(ours), expected = plain(theirs);
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LT(difference(found.detach(), expected.detach()), tolerance);
  const at::Tensor gradient = random_tensor(found.sizes(), found.scalar_type());
  found.backward(gradient);
  expected.backward(gradient.to(at::kDouble));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(ours[i].grad().scalar_type(), inputs[i].scalar_type());
    EXPECT_LT(difference(ours[i].grad(), theirs[i].grad()), tolerance) << "of input " << i;
  }
}

// The dtypes of values and of products, as for for_types.
struct Types {
  at::ScalarType values, products;
};

class Fused : public testing::TestWithParam<Types> {
 protected:
  void SetUp() override { at::manual_seed(7); }
  // Returns the error after this many roundings to the dtype of products and to that of values in
  // sequence. It includes the error of the exponential function, 2^-22.
  double error_after(int product_roundings, int value_roundings) const {
    const double exponential = values_ == at::kFloat ? 0x1p-22 : 0x1p-52;
    return product_roundings * rounding_of(products_) + value_roundings * rounding_of(values_) +
           4 * exponential;
  }
  const at::ScalarType values_ = GetParam().values, products_ = GetParam().products;
};

INSTANTIATE_TEST_SUITE_P(AllTypes, Fused,
                         testing::Values(Types{at::kDouble, at::kDouble},
                                         Types{at::kFloat, at::kFloat},
                                         Types{at::kFloat, at::kBFloat16}));

TEST_P(Fused, NormAgreesWithTorch) {
  const at::Tensor gain = random_tensor({77}, values_), wide_gain = gain.to(at::kDouble);
  const Operation fused = [&](const Tensors& x) { return rms_norm(x[0], gain, 1e-3, products_); };
  const Operation plain = [&](const Tensors& x) { return plain_rms_norm(x[0], wide_gain, 1e-3); };
  // The sums have 77 terms in any order.
  expect_same({random_tensor({2, 5, 77}, values_)}, fused, plain, error_after(2, 77));
}

TEST_P(Fused, SumAndItsNormAgreeWithTorch) {
  const at::Tensor gain = random_tensor({77}, values_), wide_gain = gain.to(at::kDouble);
  const Operation fused = [&](const Tensors& x) {
    const SumAndNorm both = add_and_norm(x[0], x[1], gain, 1e-3);
    EXPECT_EQ(both.norm.scalar_type(), products_);
    return both.sum * 0.5 + both.norm.to(values_);
  };
  const Operation plain = [&](const Tensors& x) {
    const at::Tensor sum = x[0] + x[1];
    return sum * 0.5 + plain_rms_norm(sum, wide_gain, 1e-3);
  };
  const Tensors inputs = {random_tensor({2, 5, 77}, values_), random_tensor({2, 5, 77}, products_)};
  expect_same(inputs, fused, plain, error_after(3, 77));
}

TEST_P(Fused, GateAgreesWithTorch) {
  // The values include 0 and numbers beyond the bounds of the exponential function.
  at::Tensor gate = random_tensor({3, 1001}, products_) * 4;
  gate[0].slice(0, 0, 6).copy_(at::tensor({0.0, 90.0, -90.0, 1e4, -1e4, 1e-30}));
  const Operation fused = [](const Tensors& x) { return silu_times(x[0], x[1]); };
  const Operation plain = [](const Tensors& x) { return plain_silu_times(x[0], x[1]); };
  expect_same({gate, random_tensor({3, 1001}, products_)}, fused, plain, error_after(2, 8));
}

TEST_P(Fused, RotationAgreesWithTorch) {
  const Rotation rotation = {random_tensor({7, 9}, values_), random_tensor({7, 9}, values_)};
  const Rotation wide = {rotation.cosine.to(at::kDouble), rotation.sine.to(at::kDouble)};
  const Operation fused = [&](const Tensors& x) { return rotate_heads(x[0], rotation, 0.3); };
  const Operation plain = [&](const Tensors& x) { return plain_rotate_heads(x[0], wide, 0.3); };
  expect_same({random_tensor({2, 7, 3, 18}, products_)}, fused, plain, error_after(2, 6));
}

// The lengths are below, at and above a block of queries. Some windows begin in another block.
TEST_P(Fused, AttentionAgreesWithTorch) {
  for (const int64_t length : {1, 5, 128, 300}) {
    for (const int64_t window : {0, 1, 70, 200}) {
      SCOPED_TRACE(testing::Message() << length << " window " << window);
      const Operation fused = [&](const Tensors& x) {
        return causal_attention(x[0], x[1], x[2], window);
      };
      const Operation plain = [&](const Tensors& x) {
        return plain_attention(x[0], x[1], x[2], window);
      };
      const Tensors inputs = {random_tensor({2, 2, 3, length, 8}, values_),
                              random_tensor({2, 2, length, 8}, values_),
                              random_tensor({2, 2, length, 8}, products_)};
      // If only one key is seen, the gradient of its score is zero, so that a relative error has no
      // meaning.
      if (length == 1 || window == 1) {
        const at::Tensor mixed = causal_attention(inputs[0], inputs[1], inputs[2], window);
        EXPECT_EQ(difference(mixed, plain_attention(inputs[0], inputs[1], inputs[2], window)), 0.0);
        continue;
      }
      // The weights, their gradients, the gradients of the scores and the outputs are all rounded.
      // Sums run over the keys.
      expect_same(inputs, fused, plain, error_after(8, 300));
    }
  }
}

TEST_P(Fused, LossesAgreeWithTorch) {
  const int64_t rows = 3, words = 5003;
  const at::Tensor targets = at::tensor({5, 0, 5002}, at::TensorOptions(at::kLong));
  const at::Tensor logits = random_tensor({rows, words}, products_) * 8;
  const at::Tensor teacher =
      (logits.to(at::kDouble) + random_tensor({rows, words}, at::kDouble) / 4).to(products_);
  for (const bool distilled : {false, true}) {
    SCOPED_TRACE(distilled);
    at::Tensor ours = logits.clone(), theirs = logits.to(at::kDouble).clone();
    const at::Tensor label = distilled ? teacher : at::Tensor();
    const at::Tensor wide_label = distilled ? teacher.to(at::kDouble) : at::Tensor();
    const double found = loss_of_logits(ours, label, targets, true);
    const double expected = plain_loss_of_logits(theirs, wide_label, targets, true);
    // Logits of size 40 are subtracted, so that exponents have an error of 40 of their roundings.
    EXPECT_NEAR(found, expected, rows * error_after(0, 80));
    // The gradients are differences of probabilities up to 1. The differences are small, and are
    // then rounded.
    const double largest = theirs.abs().max().item<double>();
    EXPECT_LT(difference(ours, theirs) * largest,
              error_after(0, 80) + rounding_of(products_) * largest);
    at::Tensor same = logits.clone();
    EXPECT_EQ(loss_of_logits(same, label, targets, false), found);
    EXPECT_TRUE(at::equal(same, logits));
  }
}

TEST_P(Fused, ALossOfNaNLogitsIsNaN) {
  at::Tensor logits = random_tensor({2, 100}, products_);
  logits[1][37] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor targets = at::zeros({2}, at::TensorOptions(at::kLong));
  at::Tensor copy = logits.clone();
  EXPECT_TRUE(std::isnan(loss_of_logits(copy, {}, targets, false)));
  EXPECT_TRUE(std::isnan(loss_of_logits(copy, at::zeros_like(logits), targets, false)));
  EXPECT_TRUE(std::isnan(loss_of_logits(copy, logits, targets, true)));
}

TEST_P(Fused, AdamWAgreesWithTorch) {
  const AdamStep step = {0.9, 0.999, 1e-8, 0.7, 1e-2, 0.3};
  AdamTensors ours, theirs;  // two parameters
  const auto lists = [](AdamTensors& all) {
    return std::vector{&all.values, &all.m, &all.v, &all.gradients};
  };
  for (size_t list = 0; list < 4; ++list) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{91, 100}, {7}}) {
      at::Tensor tensor = random_tensor(shape, values_);
      if (list == 2) tensor.square_();  // second moments are not negative
      lists(theirs)[list]->push_back(tensor.to(at::kDouble, false, true));
      lists(ours)[list]->push_back(std::move(tensor));
    }
  }
  const auto version = ours.values[1]._version();
  adam_update(ours, step);
  plain_adam_update(theirs, step);
  for (size_t list = 0; list < 4; ++list) {
    for (size_t i = 0; i < 2; ++i)
      EXPECT_LT(difference((*lists(ours)[list])[i], (*lists(theirs)[list])[i]), error_after(0, 16))
          << list << " " << i;
  }
  EXPECT_NE(ours.values[1]._version(), version);
  double squares = 0.0;
  for (const at::Tensor& gradient : theirs.gradients)
    squares += (gradient * gradient).sum().item<double>();
  const auto count = static_cast<double>(91 * 100 + 7);
  EXPECT_NEAR(sum_of_squares(ours.gradients), squares, count * error_after(0, 32));
  // Every sum of two fp64 numbers rounds once.
  EXPECT_NEAR(plain_sum_of_squares(theirs.gradients), squares, squares * count * 0x1p-52);
}

TEST_P(Fused, ProductAgreesWithTorch) {
  CachedCast cast;
  const at::Tensor weight = random_tensor({6, 19}, values_).requires_grad_(true);
  const at::Tensor x = random_tensor({2, 3, 19}, products_).requires_grad_(true);
  product(x, weight, cast.get(weight, products_)).sum().backward();
  const at::Tensor ones = at::ones({6, 6}, at::TensorOptions(at::kDouble));
  const at::Tensor rows = x.detach().to(at::kDouble).view({6, 19});
  // libtorch sums the 6 terms of such a small product in the dtype of products.
  EXPECT_EQ(weight.grad().scalar_type(), values_);
  EXPECT_LT(difference(weight.grad(), at::mm(ones, rows)), error_after(7, 6));
  EXPECT_LT(difference(x.grad().view({6, 19}), at::mm(ones, weight.detach().to(at::kDouble))),
            error_after(7, 6));
}

// The copy must follow a weight that changes in any way.
TEST(CachedCast, FollowsItsWeight) {
  CachedCast cast;
  at::Tensor weight = at::ones({4, 4});
  const auto first = [&] { return cast.get(weight, at::kBFloat16)[0][0].item<double>(); };
  EXPECT_EQ(first(), 1.0);
  const void* const place = cast.get(weight, at::kBFloat16).data_ptr();
  EXPECT_EQ(cast.get(weight, at::kBFloat16).data_ptr(), place) << "made anew for nothing";
  weight.detach().fill_(2.0);
  EXPECT_EQ(first(), 2.0);
  at::Tensor m = at::zeros({4, 4}), v = at::zeros({4, 4});
  adam_update({{weight}, {m}, {v}, {at::ones({4, 4})}}, {0.0, 0.0, 0.0, 1.0, 1.0, 1.0});
  EXPECT_EQ(first(), 1.0);
  EXPECT_EQ(cast.get(weight, at::kFloat).data_ptr(), weight.data_ptr());
}

}  // namespace
}  // namespace neuronmm::finetune
