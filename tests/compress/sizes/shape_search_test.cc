// Tests the search against every combination of sizes of tiny MLPs.

#include "compress/sizes/shape_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace neuronmm::compress {
namespace {

constexpr uint64_t kSearchSeed = 20261124;

// Returns a random curve that falls to 0. If it is convex, its slope falls too, as for sums of
// squared singular values.
std::vector<double> random_curve(int64_t size, bool convex, std::mt19937_64& random) {
  std::exponential_distribution<double> step(1.0);
  std::vector<double> steps;
  for (int64_t i = 0; i < size; ++i) steps.push_back(std::pow(step(random), 3.0));
  if (convex) std::ranges::sort(steps, std::greater<>());
  std::vector<double> curve(static_cast<size_t>(size + 1));
  for (size_t i = curve.size() - 1; i-- > 0;) curve[i] = curve[i + 1] + steps[i];
  return curve;
}

std::vector<PredictedLosses> random_layers(const MlpSizes& sizes, int64_t count, bool convex,
                                           std::mt19937_64& random) {
  std::vector<PredictedLosses> layers(static_cast<size_t>(count));
  double scale = 1e-3;
  for (PredictedLosses& layer : layers) {
    for (auto* curve : {&layer.gate, &layer.up, &layer.input, &layer.output}) {
      *curve = random_curve(sizes.hidden, convex, random);
      for (double& value : *curve) value *= scale;
    }
    layer.neurons = random_curve(sizes.inner, convex, random);
    scale *= 30.0;  // losses of layers differ widely
  }
  return layers;
}

std::vector<int64_t> all_sizes(int64_t whole, int64_t block, bool may_shrink) {
  std::vector<int64_t> sizes = {0};
  for (int64_t size = block; may_shrink && size < whole; size += block) sizes.push_back(size);
  return sizes;
}

// Returns every shape that a form allows.
std::vector<io::MlpShape> all_shapes(Form form, const MlpSizes& sizes, int64_t block) {
  const bool shared = form == Form::kNarrow || form == Form::kMixed, own = form == Form::kPivoted;
  std::vector<io::MlpShape> shapes;
  for (const int64_t gate : all_sizes(sizes.hidden, block, own)) {
    for (const int64_t up : all_sizes(sizes.hidden, block, own)) {
      for (const int64_t down : all_sizes(sizes.hidden, block, own || shared)) {
        for (const int64_t input : all_sizes(sizes.hidden, block, shared)) {
          for (const int64_t neurons :
               all_sizes(sizes.inner, block, form == Form::kNeurons || form == Form::kMixed)) {
            shapes.push_back({gate, up, down, input, neurons});
          }
        }
      }
    }
  }
  return shapes;
}

struct Point {
  int64_t parameters = 0;
  double loss = 0.0;
};

// Returns, over all combinations of layers, the least loss for each number of parameters, in
// ascending order of parameters.
std::vector<Point> frontier(Form form, const MlpSizes& sizes, int64_t block,
                            const std::vector<PredictedLosses>& layers) {
  std::vector<Point> all = {{}};
  for (const PredictedLosses& layer : layers) {
    std::map<int64_t, double> sums;
    for (const io::MlpShape& shape : all_shapes(form, sizes, block)) {
      const auto at = [](const std::vector<double>& curve, int64_t size) {
        return size == 0 ? 0.0 : curve[static_cast<size_t>(size)];
      };
      const double loss = at(layer.gate, shape.gate) + at(layer.up, shape.up) +
                          at(layer.input, shape.input) + at(layer.output, shape.down) +
                          at(layer.neurons, shape.neurons);
      EXPECT_DOUBLE_EQ(loss_of(layer, shape), loss);
      for (const Point& point : all) {
        const auto [found, added] =
            sums.emplace(point.parameters + sizes.parameters(shape), point.loss + loss);
        if (!added) found->second = std::min(found->second, point.loss + loss);
      }
    }
    all.clear();
    for (const auto& [parameters, loss] : sums) {
      if (all.empty() || loss < all.back().loss) all.push_back({parameters, loss});
    }
  }
  return all;
}

// Returns the corners of the frontier's lower convex hull.
std::vector<Point> hull(const std::vector<Point>& points) {
  std::vector<Point> corners;
  for (const Point& point : points) {
    while (corners.size() > 1) {
      const Point &a = corners[corners.size() - 2], &b = corners.back();
      const double slope = (b.loss - a.loss) / double(b.parameters - a.parameters);
      const double beyond = (point.loss - b.loss) / double(point.parameters - b.parameters);
      if (beyond > slope) break;
      corners.pop_back();
    }
    corners.push_back(point);
  }
  return corners;
}

// Returns the loss of the last point within the budget.
double affordable(const std::vector<Point>& points, int64_t budget) {
  double loss = std::numeric_limits<double>::infinity();
  for (const Point& point : points) {
    if (point.parameters <= budget) loss = point.loss;
  }
  return loss;
}

struct SearchCase {
  Form form;
  MlpSizes sizes;
  int64_t block, layers;
};

const SearchCase kSearchCases[] = {{Form::kMixed, {4, 6}, 1, 2},    {Form::kMixed, {6, 8}, 2, 3},
                                   {Form::kMixed, {7, 5}, 3, 3},    {Form::kNarrow, {8, 12}, 1, 2},
                                   {Form::kNarrow, {9, 4}, 2, 4},   {Form::kNeurons, {3, 40}, 1, 2},
                                   {Form::kNeurons, {3, 10}, 4, 4}, {Form::kPivoted, {5, 7}, 1, 2},
                                   {Form::kPivoted, {6, 6}, 4, 3}};

class ShapeSearchOf : public testing::TestWithParam<SearchCase> {};

TEST_P(ShapeSearchOf, LossIsAtMostThatOfTheLastHullCornerWithinTheBudget) {
  const auto& [form, sizes, block, count] = GetParam();
  std::mt19937_64 random(kSearchSeed);
  for (int trial = 0; trial < 12; ++trial) {
    const auto layers = random_layers(sizes, count, trial % 2 == 0, random);
    const std::vector<Point> best = frontier(form, sizes, block, layers), corners = hull(best);
    const int64_t least = best.front().parameters, most = sizes.dense_parameters() * count;
    double before = std::numeric_limits<double>::infinity();
    for (int64_t budget = least; budget <= most + 1;
         budget += std::max<int64_t>(1, (most - least) / 40)) {
      SCOPED_TRACE(fmt::format("{} {} x {}, block {}, trial {}, budget {}, seed {}",
                               form_name(form), sizes.hidden, sizes.inner, block, trial, budget,
                               kSearchSeed));
      const auto found = find_shapes(form, sizes, block, layers, budget);
      ASSERT_TRUE(found.ok()) << found.error().message;
      ASSERT_EQ(found->shapes.size(), layers.size());
      int64_t parameters = 0;
      double loss = 0.0;
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        const io::MlpShape& shape = found->shapes[layer];
        parameters += sizes.parameters(shape);
        loss += loss_of(layers[layer], shape);
        EXPECT_TRUE(std::ranges::count(all_shapes(form, sizes, block), shape) == 1);
      }
      const double rounding = 1e-12 * best.front().loss;
      EXPECT_EQ(found->parameters, parameters);
      EXPECT_NEAR(found->predicted_loss, loss, rounding);
      EXPECT_LE(parameters, budget);
      EXPECT_GE(loss, affordable(best, budget) - rounding);
      EXPECT_LE(loss, affordable(corners, budget) + rounding);
      EXPECT_LE(loss, before + rounding) << "a larger budget loses more";
      before = loss;
    }
    EXPECT_EQ(find_shapes(form, sizes, block, layers, most)->predicted_loss, 0.0);
    const auto refused = find_shapes(form, sizes, block, layers, least - 1);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message,
              fmt::format("form {} with block {} keeps at least {} of the MLPs' parameters, asked "
                          "were {}",
                          form_name(form), block, least, least - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, ShapeSearchOf, testing::ValuesIn(kSearchCases),
                         [](const auto& tested) {
                           return fmt::format("{}{}x{}By{}", form_name(tested.param.form),
                                              tested.param.sizes.hidden, tested.param.sizes.inner,
                                              tested.param.block);
                         });

// Only the whole is possible here, so nothing can be removed.
TEST(ShapeSearch, BlocksAsWideAsTheModelLeaveItWhole) {
  std::mt19937_64 random(kSearchSeed);
  const MlpSizes sizes = {8, 8};
  const auto layers = random_layers(sizes, 2, true, random);
  for (const int64_t block : {8, 9, 128}) {
    const int64_t dense = 2 * sizes.dense_parameters();
    const auto whole = find_shapes(Form::kMixed, sizes, block, layers, dense);
    ASSERT_TRUE(whole.ok());
    for (const io::MlpShape& shape : whole->shapes) EXPECT_EQ(shape, io::MlpShape{});
    EXPECT_FALSE(find_shapes(Form::kMixed, sizes, block, layers, dense - 1).ok());
  }
}

// Losses near the limits of fp64 are handled like any others.
TEST(ShapeSearch, LossesOfAnySizeAreCompared) {
  std::mt19937_64 random(kSearchSeed);
  const MlpSizes sizes = {6, 8};
  const auto layers = random_layers(sizes, 2, true, random);
  const int64_t budget = sizes.dense_parameters() * 6 / 5;
  const auto expected = find_shapes(Form::kMixed, sizes, 1, layers, budget);
  ASSERT_TRUE(expected.ok());
  for (const double scale : {0x1p-60, 0x1p-30, 0x1p20, 0x1p33, 0x1p90, 0x1p150}) {
    auto scaled = layers;
    for (PredictedLosses& layer : scaled) {
      for (auto* curve : {&layer.gate, &layer.up, &layer.input, &layer.output, &layer.neurons}) {
        for (double& value : *curve) value *= scale;
      }
    }
    const auto found = find_shapes(Form::kMixed, sizes, 1, scaled, budget);
    ASSERT_TRUE(found.ok()) << scale;
    EXPECT_NEAR(found->predicted_loss / scale, expected->predicted_loss,
                1e-9 * expected->predicted_loss)
        << scale;
  }
}

}  // namespace
}  // namespace neuronmm::compress
