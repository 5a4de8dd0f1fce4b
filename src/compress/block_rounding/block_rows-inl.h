// Rounds kTileRows rows of a weight to a block type. The grids have been fitted with the diagonal
// of H as weights; round_in_order() chooses codes (rounding/code_rounding-inl.h).
//
//   sweep   Improves one block after the other, or several small ones together, while all others
//           stay unchanged. It may choose other groups and other scales. Then it improves the codes
//           by coordinate descent. J can grow only where the scales of several small blocks change
//           together.
//
// This file is for one instruction set; Highway includes it once per target.

#if defined(NEURONMM_COMPRESS_BLOCK_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_COMPRESS_BLOCK_ROWS_INL_H_
#undef NEURONMM_COMPRESS_BLOCK_ROWS_INL_H_
#else
#define NEURONMM_COMPRESS_BLOCK_ROWS_INL_H_
#endif

#include <cstdint>
#include <vector>

#include "compress/block_rounding/block_rows.h"
#include "compress/rounding/code_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

// The number of columns whose gradient is computed at once, at least. Assumed: products of fewer
// columns are slower.
constexpr int64_t kSweepColumns = 128;
// Other steps that a sweep tries for a group without integers of its own, as factors. Assumed: the
// first fit is seldom further away, and least squares find what lies between them.
constexpr float kTriedFactors[] = {0.92F, 0.95F, 0.975F, 1.025F, 1.05F, 1.08F};
// The offsets that are tried with them, in steps away from the present one. Assumed.
constexpr float kTriedShifts[] = {-0.5F, 0.0F, 0.5F};
// By how much the integers of a group may change in one sweep. Assumed: the next sweep can go
// further.
constexpr int kMultiplierReach = 1, kMinimumReach = 1, kSignedMultiplierReach = 2;
// The largest minimum that six bits hold.
constexpr int kLargestMinimum = 63;
// The determinant of the equations for d and dmin, as a fraction of what it is at most. Below it
// the two numbers do nearly the same, and only d is fitted. Assumed.
constexpr double kLeastDeterminant = 1e-4;

// The numbers that one choice tries for a group.
struct TriedNumbers {
  float d, dmin;
  int multiplier, minimum;
};

// Holds kTileRows rows with their grids, codes and errors.
class BlockRows : public CodeRounding<BlockGrids> {
 public:
  BlockRows(const RoundingGram& gram, const std::vector<float>& group_roots, BlockGrids grids,
            std::vector<float> weight)
      : CodeRounding(gram, std::move(grids), std::move(weight)), group_roots_(group_roots) {}

  void sweep(bool choose_grids);
  RoundedBlockRows take() { return {std::move(grids_), std::move(code_)}; }

 private:
  // Returns the number of choices of choose_group().
  size_t choices() const;
  TriedNumbers tried(int64_t group, size_t row, size_t choice) const;
  void choose_group(int64_t group, const float* gradient);
  void fit_scales(int64_t block, float* gradient);

  const std::vector<float>& group_roots_;
};

inline void BlockRows::sweep(bool choose_grids) {
  const int64_t width = std::max(kSweepColumns, int64_t{grids_.shape.weights});
  std::vector<float> gradient(static_cast<size_t>(width * kTileRows));
  for (int64_t first = 0; first < grids_.columns; first += width) {
    const Columns part = {first, std::min(grids_.columns, first + width)};
    compute_gradient(part, gradient.data());
    if (choose_grids) {
      change_groups(part, gradient.data(),
                    [&](int64_t g, const float* of_group) { choose_group(g, of_group); });
      for (int64_t c = part.first; c < part.last; c += grids_.shape.weights) {
        fit_scales(c / grids_.shape.weights, gradient.data() + (c - first) * kTileRows);
      }
      // fit_scales() updates only the gradient of its own block.
      if (part.last - part.first > grids_.shape.weights) compute_gradient(part, gradient.data());
    }
    for (int pass = 0; pass < kPasses; ++pass) descend(part, gradient.data());
  }
}

inline size_t BlockRows::choices() const {
  const gguf_out::BlockShape& shape = grids_.shape;
  if (!shape.has_groups())
    return std::size(kTriedFactors) * (shape.has_min ? std::size(kTriedShifts) : 1);
  if (!shape.has_min) return 2 * kSignedMultiplierReach + 1;
  return (2 * kMultiplierReach + 1) * (2 * kMinimumReach + 1);
}

// `choice` is a number below choices().
inline TriedNumbers BlockRows::tried(int64_t g, size_t row, size_t choice) const {
  const size_t at = static_cast<size_t>(g * kTileRows) + row;
  const size_t in_block = static_cast<size_t>(grids_.block_of_group(g) * kTileRows) + row;
  TriedNumbers out = {grids_.d[in_block], grids_.dmin[in_block], grids_.multiplier[at],
                      grids_.minimum[at]};
  const gguf_out::BlockShape& shape = grids_.shape;
  const int number = static_cast<int>(choice);
  if (shape.has_groups()) {
    const int wide = 2 * kMinimumReach + 1;
    const int s =
        shape.has_min ? number / wide - kMultiplierReach : number - kSignedMultiplierReach;
    out.multiplier =
        std::clamp(out.multiplier + s, shape.lowest_multiplier, shape.highest_multiplier);
    if (shape.has_min)
      out.minimum = std::clamp(out.minimum + number % wide - kMinimumReach, 0, kLargestMinimum);
    return out;
  }
  const size_t factors = std::size(kTriedFactors);
  const float wanted = out.d * kTriedFactors[choice % factors];
  if (shape.has_min) {
    // The middle of the range stays where it is, or moves by the shift.
    const float middle = 0.5F * static_cast<float>(shape.codes - 1);
    const float moved = out.dmin + (wanted - out.d) * middle;
    out.dmin = grids_.narrow(moved + kTriedShifts[choice / factors] * wanted);
  }
  out.d = grids_.narrow(wanted);
  return out;
}

// Chooses the numbers and codes of a group among those near the present ones, so that they cost
// least.
inline void BlockRows::choose_group(int64_t g, const float* gradient) {
  const size_t count = choices();
  std::vector<TriedNumbers> numbers(count * kTileRows);
  for (size_t choice = 0; choice < count; ++choice) {
    for (size_t r = 0; r < kTileRows; ++r) numbers[choice * kTileRows + r] = tried(g, r, choice);
  }
  try_grids(
      g, gradient, group_roots_, count,
      [&](size_t choice) {
        TileGrid grid;
        for (size_t r = 0; r < kTileRows; ++r) {
          const TriedNumbers& of_row = numbers[choice * kTileRows + r];
          const BlockGrids::Line line =
              grids_.line(of_row.d, of_row.dmin, of_row.multiplier, of_row.minimum);
          grid.set(static_cast<int64_t>(r), line.step, line.offset);
        }
        return grid;
      },
      [](size_t, size_t) { return true; },
      [&](size_t choice, size_t row) {
        const TriedNumbers& of_row = numbers[choice * kTileRows + row];
        const size_t at = static_cast<size_t>(g * kTileRows) + row;
        grids_.multiplier[at] = static_cast<int16_t>(of_row.multiplier);
        grids_.minimum[at] = static_cast<int16_t>(of_row.minimum);
        if (grids_.shape.has_groups()) return;
        grids_.d[at] = of_row.d;
        grids_.dmin[at] = of_row.dmin;
      });
  for (int64_t row = 0; row < kTileRows; ++row) grids_.update(g, row);
}

// Sets d and dmin of a block to the best ones for its present integers. J is a parabola in both.
// `gradient` is that of the block's columns.
inline void BlockRows::fit_scales(int64_t block, float* gradient) {
  const gguf_out::BlockShape& shape = grids_.shape;
  const int64_t first = block * shape.weights, count = shape.weights;
  // The derivatives of the values by d and by dmin, and their products with the block of H.
  const auto size = static_cast<size_t>(count * kTileRows);
  std::vector<float> by_d(size), by_min(size), moved_d(size), moved_min(size);
  const float zero = grids_.zero();
  for (int64_t c = 0; c < count; ++c) {
    const int64_t g = grids_.group_of(first + c);
    for (int64_t r = 0; r < kTileRows; ++r) {
      const auto at = static_cast<size_t>(c * kTileRows + r);
      const auto of_group = static_cast<size_t>(g * kTileRows + r);
      const auto code = static_cast<float>(code_[static_cast<size_t>(first * kTileRows) + at]);
      by_d[at] = static_cast<float>(grids_.multiplier[of_group]) * (code - zero);
      by_min[at] = -static_cast<float>(grids_.minimum[of_group]);
    }
  }
  const float* const h = gram_.h.data() + first * gram_.columns + first;
  multiply_tile(by_d.data(), h, count, count, gram_.columns, 0.0F, moved_d.data());
  if (shape.has_min)
    multiply_tile(by_min.data(), h, count, count, gram_.columns, 0.0F, moved_min.data());
  RowValues dd{}, dm{}, mm{}, xd{}, xm{};
  for (int64_t c = 0; c < count; ++c) {
    for (size_t r = 0; r < kTileRows; ++r) {
      const size_t at = static_cast<size_t>(c * kTileRows) + r;
      dd[r] += by_d[at] * moved_d[at];
      dm[r] += by_d[at] * moved_min[at];
      mm[r] += by_min[at] * moved_min[at];
      xd[r] += by_d[at] * gradient[at];
      xm[r] += by_min[at] * gradient[at];
    }
  }
  RowValues step_d{}, step_min{};
  for (size_t r = 0; r < kTileRows; ++r) {
    float& d = grids_.d[static_cast<size_t>(block * kTileRows) + r];
    float& dmin = grids_.dmin[static_cast<size_t>(block * kTileRows) + r];
    const double determinant = double{dd[r]} * mm[r] - double{dm[r]} * dm[r];
    double best_d = 0, best_min = 0;
    if (determinant > kLeastDeterminant * dd[r] * mm[r]) {
      best_d = (double{mm[r]} * xd[r] - double{dm[r]} * xm[r]) / determinant;
      best_min = (double{dd[r]} * xm[r] - double{dm[r]} * xd[r]) / determinant;
    } else if (dd[r] > 0) {
      best_d = double{xd[r]} / dd[r];
    }
    const float new_d = grids_.narrow(d + static_cast<float>(best_d));
    const float new_min = shape.has_min ? grids_.narrow(dmin + static_cast<float>(best_min)) : dmin;
    const float by = new_d - d, by_m = new_min - dmin;
    // Rounding to f16 may cancel the gain; the old numbers then stay.
    const float change =
        by * (by * dd[r] + 2 * by_m * dm[r] - 2 * xd[r]) + by_m * (by_m * mm[r] - 2 * xm[r]);
    if (!(change < 0)) continue;
    step_d[r] = by;
    step_min[r] = by_m;
    d = new_d;
    dmin = new_min;
  }
  for (int64_t i = 0; i < shape.groups(); ++i) {
    for (int64_t row = 0; row < kTileRows; ++row) grids_.update(block * shape.groups() + i, row);
  }
  for (int64_t c = 0; c < count; ++c) {
    set_error(first + c);
    for (size_t r = 0; r < kTileRows; ++r) {
      const size_t at = static_cast<size_t>(c * kTileRows) + r;
      gradient[at] -= step_d[r] * moved_d[at] + step_min[r] * moved_min[at];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_COMPRESS_BLOCK_ROWS_INL_H_
