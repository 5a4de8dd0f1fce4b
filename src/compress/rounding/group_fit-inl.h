// Chooses the scales, multipliers and zero points (ops/low_bit.h) of a weight before its codes are
// chosen. The criterion is the weighted squared error of the values when each is rounded to
// nearest. This file is for one instruction set; Highway includes it once per target.

#if defined(NEURONMM_COMPRESS_GROUP_FIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_COMPRESS_GROUP_FIT_INL_H_
#undef NEURONMM_COMPRESS_GROUP_FIT_INL_H_
#else
#define NEURONMM_COMPRESS_GROUP_FIT_INL_H_
#endif

#include <array>
#include <cmath>

#include "compress/rounding/row_grids.h"
#include "compress/rounding/row_tile-inl.h"
#include "ops/weights.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

using ops::GroupOf4Bits;
using ops::kQuantGroup;

// One group for each row of a tile.
using RowGroups = std::array<GroupOf4Bits, kTileRows>;

// Larger than any squared error.
constexpr float kNever = 1e30F;
constexpr float kHalfSteps = 30;  // codes 0 ... 15 in units of half a step, as zz counts
// The range of zz and the largest sc of a 4-bit group (documented in ops/low_bit.h).
constexpr int kFewestHalves = 8, kMostHalves = 23, kLargestMultiplier = 16;
// Fractions of the step that covers all values of a group. A smaller step clips outliers and
// represents the other values more finely. Assumed.
constexpr float kShrunk[] = {1.0F, 0.94F, 0.88F, 0.82F, 0.76F, 0.7F};
// Multipliers to try for the group with the largest step of a block. Above 13 few zero points keep
// the bytes within ±127. The first multiplier is valid with every zero point. Assumed.
constexpr int kTopMultipliers[] = {10, 8, 9, 11, 12, 13, 14, 15, 16};

// Some columns of a tile, and the weight of each column's squared errors.
struct Tile {
  const float* weight;      // [columns, kTileRows]
  const float* importance;  // [columns]
  int64_t columns;
};

// Sets `sum` to each row's weighted squared error when all values are rounded to nearest on
// `grid`.
inline void squared_errors(const Tile& tile, const TileGrid& grid, CodeRange range,
                           RowValues& sum) {
  sum.fill(0);
  for (int64_t c = 0; c < tile.columns; ++c) {
    const float* const w = tile.weight + c * kTileRows;
    for (int64_t r = 0; r < kTileRows; ++r) {
      const float error = w[r] - grid_value(nearest_code(w[r], grid, r, range), grid, r);
      sum[static_cast<size_t>(r)] += tile.importance[c] * error * error;
    }
  }
}

// The smallest and the largest value of each row. 0 is always within the range.
struct Extent {
  RowValues low{}, high{};
};

inline Extent extent_of(const Tile& tile) {
  Extent extent;
  for (int64_t c = 0; c < tile.columns; ++c) {
    for (size_t r = 0; r < kTileRows; ++r) {
      const float w = tile.weight[c * kTileRows + static_cast<int64_t>(r)];
      extent.low[r] = std::min(extent.low[r], w);
      extent.high[r] = std::max(extent.high[r], w);
    }
  }
  return extent;
}

// The best step and zero point of a group if steps could be any number.
struct FreeGroup {
  RowValues step{};
  std::array<int, kTileRows> halves{};
};

// Returns the zero point, in half steps, of the grid that covers [low, high].
inline int zero_halves(float low, float high) {
  const float halves = high > low ? std::rint(kHalfSteps * -low / (high - low)) : 15.0F;
  return std::clamp(static_cast<int>(halves), kFewestHalves, kMostHalves);
}

// Tries several zero points and steps for each row and returns the best ones.
inline FreeGroup fit_free(const Tile& tile, CodeRange range) {
  const Extent extent = extent_of(tile);
  FreeGroup best;
  RowValues least, sum;
  least.fill(kNever);
  TileGrid grid;
  for (int shift = -2; shift <= 2; ++shift) {
    for (const float shrunk : kShrunk) {
      std::array<int, kTileRows> halves;
      for (size_t r = 0; r < kTileRows; ++r) {
        halves[r] = std::clamp(zero_halves(extent.low[r], extent.high[r]) + shift, kFewestHalves,
                               kMostHalves);
        const float below = 0.5F * static_cast<float>(halves[r]);
        const float step =
            shrunk * std::max(extent.high[r] / (range.highest - below), -extent.low[r] / below);
        grid.set(static_cast<int64_t>(r), step, step * below);
      }
      squared_errors(tile, grid, range, sum);
      for (size_t r = 0; r < kTileRows; ++r) {
        if (sum[r] >= least[r]) continue;
        least[r] = sum[r];
        best.step[r] = grid.step[r];
        best.halves[r] = halves[r];
      }
    }
  }
  return best;
}

// Finds the multiplier and zero point that fit `scale` best among those near the free ones, and
// adds their errors to `total`.
inline void fit_group(const Tile& tile, CodeRange range, const FreeGroup& free,
                      const RowValues& scale, RowGroups& best, RowValues& total) {
  RowValues least, sum;
  least.fill(kNever);
  TileGrid grid;
  for (int multiplier = -1; multiplier <= 1; ++multiplier) {
    for (int shift = -1; shift <= 1; ++shift) {
      RowGroups tried;
      for (size_t r = 0; r < kTileRows; ++r) {
        const float sc = scale[r] > 0 ? std::rint(free.step[r] / scale[r]) : 1.0F;
        tried[r] = {std::clamp(static_cast<int>(sc) + multiplier, 1, kLargestMultiplier),
                    std::clamp(free.halves[r] + shift, kFewestHalves, kMostHalves)};
        grid.set(static_cast<int64_t>(r), scale[r] * static_cast<float>(tried[r].multiplier),
                 scale[r] * static_cast<float>(tried[r].zero()));
      }
      squared_errors(tile, grid, range, sum);
      for (size_t r = 0; r < kTileRows; ++r) {
        if (sum[r] >= least[r] || !tried[r].fits()) continue;
        least[r] = sum[r];
        best[r] = tried[r];
      }
    }
  }
  for (size_t r = 0; r < kTileRows; ++r) total[r] += least[r];
}

// Chooses the scale of a block of 4-bit groups. Every scale that gives the coarsest group one of
// kTopMultipliers is tried, each with the best multipliers and zero points of all groups.
inline void fit_block_of_groups(const float* weight, const float* importance, int64_t block,
                                RowGrids& grids) {
  const int64_t first = grids.first_group(block), count = grids.first_group(block + 1) - first;
  std::vector<Tile> tiles;
  std::vector<FreeGroup> free;
  RowValues coarsest{};
  for (int64_t g = first; g < first + count; ++g) {
    const int64_t begin = g * grids.format.group;
    tiles.push_back({weight + begin * kTileRows, importance + begin, grids.group_end(g) - begin});
    free.push_back(fit_free(tiles.back(), grids.range));
    for (size_t r = 0; r < kTileRows; ++r) coarsest[r] = std::max(coarsest[r], free.back().step[r]);
  }
  RowValues least;
  least.fill(kNever);
  std::vector<RowGroups> tried(static_cast<size_t>(count));
  for (const int top : kTopMultipliers) {
    RowValues scale, total{};
    for (size_t r = 0; r < kTileRows; ++r) {
      scale[r] = bf16_value(coarsest[r] / static_cast<float>(top));
    }
    for (size_t g = 0; g < tried.size(); ++g) {
      fit_group(tiles[g], grids.range, free[g], scale, tried[g], total);
    }
    for (size_t r = 0; r < kTileRows; ++r) {
      if (total[r] >= least[r]) continue;
      least[r] = total[r];
      grids.scale[static_cast<size_t>(block * kTileRows) + r] = scale[r];
      for (size_t g = 0; g < tried.size(); ++g) {
        grids.group[static_cast<size_t>(first + static_cast<int64_t>(g)) * kTileRows + r] =
            tried[g][r];
      }
    }
  }
}

// Chooses the scale of a block of 8-bit or 6-bit codes: the one that covers all values, or a
// smaller one.
inline void fit_symmetric_block(const float* weight, const float* importance, int64_t block,
                                RowGrids& grids) {
  const int64_t begin = block * kQuantGroup;
  const Tile tile = {weight + begin * kTileRows, importance + begin,
                     grids.block_end(block) - begin};
  const Extent extent = extent_of(tile);
  const float largest = 0.5F * (grids.range.highest - grids.range.lowest);
  const float middle = grids.range.lowest + largest;
  RowValues least, sum;
  least.fill(kNever);
  TileGrid grid;
  for (const float shrunk : kShrunk) {
    for (size_t r = 0; r < kTileRows; ++r) {
      const float reach = std::max(extent.high[r], -extent.low[r]);
      const float scale = bf16_value(shrunk * reach / largest);
      grid.set(static_cast<int64_t>(r), scale, scale * middle);
    }
    squared_errors(tile, grid, grids.range, sum);
    for (size_t r = 0; r < kTileRows; ++r) {
      if (sum[r] >= least[r]) continue;
      least[r] = sum[r];
      grids.scale[static_cast<size_t>(block * kTileRows) + r] = grid.step[r];
    }
  }
}

// Sets the scales and groups of `grids` for `weight` [columns, kTileRows]. importance [columns]
// weights the squared errors of each column; all entries must be positive.
inline void fit_grids(const float* weight, const float* importance, RowGrids& grids) {
  for (int64_t b = 0; b < grids.blocks(); ++b) {
    if (grids.format.bits == 4) {
      fit_block_of_groups(weight, importance, b, grids);
    } else {
      fit_symmetric_block(weight, importance, b, grids);
    }
  }
  for (int64_t g = 0; g < grids.groups(); ++g) {
    for (int64_t row = 0; row < kTileRows; ++row) grids.update(g, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_COMPRESS_GROUP_FIT_INL_H_
