// Rounds kTileRows rows of a weight to codes of 8, 6 or 4 bits. The grids are first fitted with the
// diagonal of H as weights, then round_in_order() chooses codes (code_rounding-inl.h).
//
//   sweep   Improves blocks of kQuantGroup columns one by one, the others unchanged. It may choose
//           other groups and another scale. Then it improves the codes by coordinate descent. J
//           never grows.
//
// This file is for one instruction set; Highway includes it once per target.

#if defined(NEURONMM_COMPRESS_ROW_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_COMPRESS_ROW_ROUNDING_INL_H_
#undef NEURONMM_COMPRESS_ROW_ROUNDING_INL_H_
#else
#define NEURONMM_COMPRESS_ROW_ROUNDING_INL_H_
#endif

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/rounding/code_rounding-inl.h"
#include "compress/rounding/group_fit-inl.h"
#include "compress/rounding/row_rounding.h"
#include "ops/weights.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

// By how much sc and zz (ops::GroupOf4Bits) may change in one sweep. Assumed: the next sweep can go
// further.
constexpr int kMultiplierSteps = 1, kZeroSteps = 2;

// The number of groups that a sweep tries for each group.
constexpr size_t kNearby = (2 * kMultiplierSteps + 1) * (2 * kZeroSteps + 1);

// Returns the group number `choice` among those near `present`, `choice` < kNearby.
inline GroupOf4Bits nearby(GroupOf4Bits present, size_t choice) {
  constexpr int kZeros = 2 * kZeroSteps + 1;
  const int sc = static_cast<int>(choice) / kZeros - kMultiplierSteps;
  const int zz = static_cast<int>(choice) % kZeros - kZeroSteps;
  return {std::clamp(present.multiplier + sc, 1, kLargestMultiplier),
          std::clamp(present.twice_zero_point + zz, kFewestHalves, kMostHalves)};
}

// Holds kTileRows rows with their grids, codes and errors.
class RowRounding : public CodeRounding<RowGrids> {
 public:
  // Fits the grids to `weight` [columns, kTileRows]. `group_roots` are gram.group_roots() for 4
  // bits, otherwise empty. References must stay valid.
  RowRounding(const RoundingGram& gram, const std::vector<float>& group_roots,
              ops::LowBitFormat format, std::vector<float> weight);

  void sweep(bool choose_grids);

  // Returns the grids and codes. The object must not be used afterwards.
  RoundedRows take() { return {std::move(grids_), std::move(code_)}; }

 private:
  void choose_group(int64_t group, const float* gradient);
  TileGrid trial_grid(int64_t group, std::span<const GroupOf4Bits> present, size_t choice) const;
  void fit_scale(int64_t block, float* gradient);

  const std::vector<float>& group_roots_;
};

inline RowRounding::RowRounding(const RoundingGram& gram, const std::vector<float>& group_roots,
                                ops::LowBitFormat format, std::vector<float> weight)
    : CodeRounding(gram, RowGrids(format, gram.columns), std::move(weight)),
      group_roots_(group_roots) {
  fit_grids(weight_.data(), gram_.diagonal.data(), grids_);
}

inline void RowRounding::sweep(bool choose_grids) {
  std::vector<float> gradient(ops::kQuantGroup * kTileRows);
  for (int64_t b = 0; b < grids_.blocks(); ++b) {
    const Columns block = {b * ops::kQuantGroup, grids_.block_end(b)};
    compute_gradient(block, gradient.data());
    if (choose_grids) {
      if (grids_.format.bits == 4) {
        change_groups(block, gradient.data(),
                      [&](int64_t g, const float* of_group) { choose_group(g, of_group); });
      }
      fit_scale(b, gradient.data());
    }
    for (int pass = 0; pass < kPasses; ++pass) descend(block, gradient.data());
  }
}

// Chooses multiplier, zero point and codes of a group among those near the present ones, so that
// they cost least.
inline void RowRounding::choose_group(int64_t g, const float* gradient) {
  GroupOf4Bits* const chosen = grids_.group.data() + g * kTileRows;
  std::array<GroupOf4Bits, kTileRows> present;
  std::copy_n(chosen, kTileRows, present.begin());
  try_grids(
      g, gradient, group_roots_, kNearby,
      [&](size_t choice) { return trial_grid(g, present, choice); },
      [&](size_t choice, size_t row) { return nearby(present[row], choice).fits(); },
      [&](size_t choice, size_t row) { chosen[row] = nearby(present[row], choice); });
  for (int64_t row = 0; row < kTileRows; ++row) grids_.update(g, row);
}

// Returns the grid of each row for the group number `choice` near the row's present one.
inline TileGrid RowRounding::trial_grid(int64_t g, std::span<const GroupOf4Bits> present,
                                        size_t choice) const {
  const float* const scale = grids_.scale.data() + grids_.block_of_group(g) * kTileRows;
  TileGrid grid;
  for (int64_t r = 0; r < kTileRows; ++r) {
    const GroupOf4Bits tried = nearby(present[static_cast<size_t>(r)], choice);
    grid.set(r, scale[r] * static_cast<float>(tried.multiplier),
             scale[r] * static_cast<float>(tried.zero()));
  }
  return grid;
}

// Sets the scale to the best one for the block's present bytes. J is a parabola in the scale.
inline void RowRounding::fit_scale(int64_t block, float* gradient) {
  const int64_t first = block * ops::kQuantGroup, last = grids_.block_end(block);
  const int64_t count = last - first;
  std::vector<float> unit(static_cast<size_t>(count * kTileRows)), moved(unit.size());
  float* const scale = grids_.scale.data() + block * kTileRows;
  RowValues along{}, curvature{};
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t r = 0; r < kTileRows; ++r) {
      const auto at = static_cast<size_t>(c * kTileRows + r);
      const size_t in_row = static_cast<size_t>(first * kTileRows) + at;
      unit[at] = scale[r] > 0 ? (weight_[in_row] - error_[in_row]) / scale[r] : 0.0F;
    }
  }
  multiply_tile(unit.data(), gram_.h.data() + first * gram_.columns + first, count, count,
                gram_.columns, 0.0F, moved.data());
  for (int64_t c = 0; c < count; ++c) {
    for (size_t r = 0; r < kTileRows; ++r) {
      const size_t at = static_cast<size_t>(c * kTileRows) + r;
      along[r] += unit[at] * gradient[at];
      curvature[r] += unit[at] * moved[at];
    }
  }
  RowValues step;
  for (size_t r = 0; r < kTileRows; ++r) {
    const float best = curvature[r] > 0 ? scale[r] + along[r] / curvature[r] : scale[r];
    const float rounded = best > 0 ? bf16_value(best) : scale[r];
    step[r] = rounded - scale[r];
    // Rounding the scale to bf16 may cancel the gain; the old scale then stays.
    if (step[r] * (step[r] * curvature[r] - 2 * along[r]) >= 0) step[r] = 0;
    scale[r] += step[r];
  }
  for (int64_t g = grids_.first_group(block); g < grids_.first_group(block + 1); ++g) {
    for (int64_t row = 0; row < kTileRows; ++row) grids_.update(g, row);
  }
  for (int64_t c = 0; c < count; ++c) {
    set_error(first + c);
    for (size_t r = 0; r < kTileRows; ++r) {
      const size_t at = static_cast<size_t>(c * kTileRows) + r;
      gradient[at] -= step[r] * moved[at];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_COMPRESS_ROW_ROUNDING_INL_H_
