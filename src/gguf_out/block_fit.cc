#include "gguf_out/block_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace neuronmm::gguf_out {
namespace {

// How many steps are tried on either side of the one that covers all values, and by how much the
// range of codes differs between two of them (as llama.cpp's make_qx_quants; documented).
constexpr int kTried = 9;
constexpr float kTriedSpacing = 0.1F;
// For groups with a minimum the range of codes is tried from 0.9 fewer to 2.7 more, as a fraction
// of 1/15 of the range: llama.cpp's make_qkx3_quants tries the same numbers for 16 codes
// (documented).
constexpr float kFewerCodes = 0.9F;
constexpr int kTriedWithMin = 28;
// The largest multiplier and minimum of Q4_K and Q5_K.
constexpr int kLargestSixBits = 63;
// How often all multipliers of a block, and then d and dmin, are chosen anew.
constexpr int kRounds = 3;
// Rounds a number of at most 2^22 to an integer when added and subtracted (1.5 · 2^23).
constexpr float kRoundingBias = 12582912.0F;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The values of a group with the weights of their squared errors.
struct Group {
  const float* value;
  const float* importance;
  int count;
};

// A grid: value = step · level - offset.
struct Grid {
  float step = 0, offset = 0;
};

float nearest_level(const BlockShape& shape, float target) {
  if (shape.has_table)
    return static_cast<float>(kLevels[static_cast<size_t>(nearest_table_code(target))]);
  // This order makes NaN 0. It arises from weights that are too large or too small for the scales.
  const float clamped = std::min(std::max(0.0F, target), static_cast<float>(shape.codes - 1));
  return (clamped + kRoundingBias) - kRoundingBias;
}

// The sums that least squares needs of a group with given levels l: weighted sums of 1, l, l², x,
// x·l and x².
struct Sums {
  double one = 0, level = 0, level2 = 0, value = 0, both = 0, value2 = 0;

  // Returns the squared error on a grid with these levels.
  double error(const Grid& grid) const {
    const double s = grid.step, o = grid.offset;
    return value2 + s * s * level2 + o * o * one - 2 * (s * both - o * value + s * o * level);
  }
  // Returns the best grid with these levels.
  Grid best() const {
    const double determinant = one * level2 - level * level;
    if (!(determinant > 1e-9 * one * level2)) return {};
    return {static_cast<float>((one * both - level * value) / determinant),
            static_cast<float>((level * both - level2 * value) / determinant)};
  }
  // Returns the best step for a given ratio of offset and step.
  float best_step(double zero) const {
    const double curvature = level2 - 2 * zero * level + zero * zero * one;
    return curvature > 0 ? static_cast<float>((both - zero * value) / curvature) : 0.0F;
  }
  // Returns the best offset for a given step.
  float best_offset(double step) const {
    return one > 0 ? static_cast<float>((step * level - value) / one) : 0.0F;
  }
};

// Returns the sums for the levels that are nearest on `grid`.
Sums sums_of(const BlockShape& shape, const Group& group, const Grid& grid) {
  const float inverse = grid.step != 0 ? 1 / grid.step : 0.0F;
  float one = 0, level = 0, level2 = 0, value = 0, both = 0, value2 = 0;
  for (int i = 0; i < group.count; ++i) {
    const float x = group.value[i], w = group.importance[i];
    const float l = nearest_level(shape, (x + grid.offset) * inverse);
    one += w;
    level += w * l;
    level2 += w * l * l;
    value += w * x;
    both += w * x * l;
    value2 += w * x * x;
  }
  return {one, level, level2, value, both, value2};
}

// Returns the squared error when the group is rounded to nearest on `grid`.
double error_of(const BlockShape& shape, const Group& group, const Grid& grid) {
  const float inverse = grid.step != 0 ? 1 / grid.step : 0.0F;
  float sum = 0;
  for (int i = 0; i < group.count; ++i) {
    const float x = group.value[i];
    const float error =
        x - (grid.step * nearest_level(shape, (x + grid.offset) * inverse) - grid.offset);
    sum += group.importance[i] * error * error;
  }
  return sum;
}

// Keeps the best grid of those tried.
struct Search {
  const BlockShape& shape;
  const Group& group;
  Grid best;
  double least = kNever;

  void take(const Grid& grid) {
    const double error = error_of(shape, group, grid);
    if (!(error < least)) return;
    least = error;
    best = grid;
  }
};

// Finds the step of a group without a minimum. `narrow` gives the number that is stored.
template <typename Narrow>
Grid fit_step(const BlockShape& shape, const Group& group, const Narrow& narrow) {
  float extreme = 0;
  for (int i = 0; i < group.count; ++i) {
    if (std::abs(group.value[i]) > std::abs(extreme)) extreme = group.value[i];
  }
  const auto zero = static_cast<float>(shape.zero);
  const auto grid_of = [&](float step) {
    const float stored = narrow(step);
    return Grid{stored, stored * zero};
  };
  const float low = static_cast<float>(shape.lowest_level()) - zero;
  const float high = static_cast<float>(shape.highest_level()) - zero;
  Search search = {shape, group, grid_of(extreme / low)};
  if (extreme == 0) return search.best;
  // The numbers of the table are about 16 times as far apart as codes.
  const float spacing = shape.has_table ? 16 * kTriedSpacing : kTriedSpacing;
  const int each = shape.codes > 64 ? 2 : kTried;
  for (const float end : {low, high}) {
    for (int i = -each; i <= each; ++i) {
      const Grid tried = grid_of(extreme / (end + spacing * static_cast<float>(i)));
      search.take(tried);
      search.take(grid_of(sums_of(shape, group, tried).best_step(shape.zero)));
    }
  }
  return search.best;
}

// Finds step and offset of a group with a minimum. For types with groups the minimum is at most 0.
template <typename Narrow>
Grid fit_step_and_offset(const BlockShape& shape, const Group& group, const Narrow& narrow) {
  const auto [low_at, high_at] = std::minmax_element(group.value, group.value + group.count);
  const bool keeps_zero = shape.has_groups();
  const float low = keeps_zero ? std::min(*low_at, 0.0F) : *low_at, high = *high_at;
  const auto last = static_cast<float>(shape.codes - 1);
  const auto stored = [&](Grid grid) {
    if (keeps_zero) grid.offset = std::max(grid.offset, 0.0F);
    return Grid{narrow(std::max(grid.step, 0.0F)), narrow(grid.offset)};
  };
  Search search = {shape, group, stored({(high / last) - (low / last), -low})};
  if (high <= low) return stored({0, -low});
  const float spacing = last / 15 * kTriedSpacing;
  for (int i = 0; i < kTriedWithMin; ++i) {
    const float codes = last - last / 15 * kFewerCodes + spacing * static_cast<float>(i);
    const Grid tried = {(high / codes) - (low / codes), -low};
    search.take(stored(tried));
    const Sums sums = sums_of(shape, group, tried);
    const Grid fitted = sums.best();
    if (keeps_zero && fitted.offset < 0) {
      search.take(stored({sums.best_step(0), 0}));
    } else if (fitted.step > 0) {
      search.take(stored(fitted));
    }
  }
  return search.best;
}

// A block of a type with groups, while its numbers are chosen.
class GroupedFit {
 public:
  GroupedFit(BlockType type, const float* values, const float* importance)
      : shape_(shape_of(type)), values_(values), importance_(importance) {}

  BlockNumbers fit() {
    const auto as_is = [](float value) { return value; };
    float largest_step = 0, largest_offset = 0;
    for (int g = 0; g < shape_.groups(); ++g) {
      Grid& grid = free_[static_cast<size_t>(g)];
      grid = shape_.has_min ? fit_step_and_offset(shape_, group(g), as_is)
                            : fit_step(shape_, group(g), as_is);
      if (std::abs(grid.step) > std::abs(largest_step)) largest_step = grid.step;
      if (shape_.has_min) largest_offset = std::max(largest_offset, grid.offset);
    }
    BlockNumbers tried, best;
    tried.d =
        f16_value(largest_step / static_cast<float>(shape_.has_min ? shape_.highest_multiplier
                                                                   : shape_.lowest_multiplier));
    tried.dmin = f16_value(largest_offset / kLargestSixBits);
    double least = kNever;
    for (int round = 0; round < kRounds; ++round) {
      const double error = choose_multipliers(tried);
      if (round == 0 || error < least) {
        least = error;
        best = tried;
      }
      refit(tried);
    }
    return best;
  }

 private:
  Group group(int g) const {
    const int first = g * shape_.group;
    return {values_ + first, importance_ + first, shape_.group};
  }
  static int whole(float ratio) {
    // This order makes NaN -200, whose multiplier is the lowest one.
    return static_cast<int>(std::rint(std::min(std::max(-200.0F, ratio), 200.0F)));
  }

  // Chooses multiplier and minimum of each group near the free ones. Returns the squared error.
  double choose_multipliers(BlockNumbers& block) {
    double total = 0;
    for (int g = 0; g < shape_.groups(); ++g) {
      const size_t at = static_cast<size_t>(g);
      const int s0 = block.d != 0 ? whole(free_[at].step / block.d) : 0;
      const int m0 = block.dmin != 0 && shape_.has_min ? whole(free_[at].offset / block.dmin) : 0;
      const int reach = shape_.has_min && block.dmin != 0 ? 1 : 0;
      double least = kNever;
      BlockNumbers tried = block;
      for (int s = s0 - 1; s <= s0 + 1; ++s) {
        for (int m = m0 - reach; m <= m0 + reach; ++m) {
          tried.multiplier[at] = static_cast<int16_t>(
              std::clamp(s, shape_.lowest_multiplier, shape_.highest_multiplier));
          tried.minimum[at] = static_cast<int16_t>(std::clamp(m, 0, kLargestSixBits));
          const double error = error_of(shape_, group(g), {tried.step(g), tried.offset(shape_, g)});
          if (!(error < least)) continue;
          least = error;
          block.multiplier[at] = tried.multiplier[at];
          block.minimum[at] = tried.minimum[at];
        }
      }
      total += least;
    }
    return total;
  }

  // Sets d and dmin to the best ones for the present multipliers and levels.
  void refit(BlockNumbers& block) const {
    // The error is a parabola in d and dmin.
    double dd = 0, dm = 0, mm = 0, xd = 0, xm = 0;
    for (int g = 0; g < shape_.groups(); ++g) {
      const double s = block.multiplier[static_cast<size_t>(g)];
      const double m = block.minimum[static_cast<size_t>(g)];
      const Sums sums = sums_of(shape_, group(g), {block.step(g), block.offset(shape_, g)});
      const double zero = shape_.zero;
      dd += s * s * (sums.level2 - 2 * zero * sums.level + zero * zero * sums.one);
      dm -= s * m * (sums.level - zero * sums.one);
      mm += m * m * sums.one;
      xd += s * (sums.both - zero * sums.value);
      xm -= m * sums.value;
    }
    const double determinant = dd * mm - dm * dm;
    if (determinant > 1e-9 * dd * mm) {
      block.d = f16_value(static_cast<float>((mm * xd - dm * xm) / determinant));
      block.dmin = f16_value(static_cast<float>((dd * xm - dm * xd) / determinant));
    } else if (dd > 0) {
      block.d = f16_value(static_cast<float>((xd - dm * block.dmin) / dd));
    }
  }

  const BlockShape& shape_;
  const float* values_;
  const float* importance_;
  std::array<Grid, kMostGroups> free_ = {};
};

}  // namespace

void round_to_scales(const BlockShape& shape, const float* values, BlockNumbers& block) {
  for (int i = 0; i < shape.weights; ++i) {
    const int g = i / shape.group;
    const float step = block.step(g);
    const float target = step != 0 ? (values[i] + block.offset(shape, g)) / step : 0.0F;
    const int code = shape.has_table ? nearest_table_code(target)
                                     : static_cast<int>(nearest_level(shape, target));
    block.code[static_cast<size_t>(i)] = static_cast<uint8_t>(code);
  }
}

BlockNumbers fit_block(BlockType type, const float* values, const float* importance) {
  const BlockShape& shape = shape_of(type);
  BlockNumbers block;
  if (shape.has_groups()) {
    block = GroupedFit(type, values, importance).fit();
  } else {
    const Group all = {values, importance, shape.weights};
    block.multiplier[0] = 1;
    if (shape.has_min) {
      const Grid grid = fit_step_and_offset(shape, all, f16_value);
      block.d = grid.step;
      block.dmin = grid.offset;
      block.minimum[0] = 1;
    } else {
      block.d = fit_step(shape, all, f16_value).step;
    }
  }
  round_to_scales(shape, values, block);
  return block;
}

}  // namespace neuronmm::gguf_out
