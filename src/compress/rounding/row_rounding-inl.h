// Rounds kTileRows rows of a weight to codes. The cost of rounding is J, the sum over rows of
// e·H·eᵀ, with e = w - value and H the damped Gram matrix of the layer's input.
//
//   round_in_order   Fits the grids with the diagonal of H as weights. Then gives one column after
//                    the other the codes nearest to its target, which compensates the errors of
//                    the columns before it. This is GPTQ, or Babai's nearest plane: if H = U·Uᵀ
//                    and U is upper triangular, J is the squared norm of e·U. A column of e·U
//                    depends only on the errors of that column and of the columns before it.
//   sweep            Improves blocks of kQuantGroup columns one by one, the others unchanged. It
//                    may choose other groups and another scale. Then it improves the codes by
//                    coordinate descent. J never grows.
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

#include "compress/linear_algebra/blas.h"
#include "compress/rounding/group_fit-inl.h"
#include "compress/rounding/row_rounding.h"
#include "ops/weights.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

using ops::GroupOf4Bits;

// The number of columns in which errors are propagated one column at a time. The errors of all
// earlier columns are added by one matrix product.
constexpr int64_t kOrderBlock = 64;
// The number of passes of the coordinate descent over a block. The second pass gains little, but it
// is cheap compared with the matrix product for the block's gradient.
constexpr int kPasses = 2;
// The number of columns in which the coordinate descent propagates changes one column at a time.
// The gradient of that many columns stays in the first-level cache.
constexpr int64_t kDescentColumns = 32;
// The largest group of a 4-bit format.
constexpr int64_t kMostColumns = 32;
// By how much sc and zz (ops::GroupOf4Bits) may change in one sweep.
constexpr int kMultiplierSteps = 1, kZeroSteps = 2;

// The number of groups that a sweep tries for each group.
constexpr size_t kNearby = (2 * kMultiplierSteps + 1) * (2 * kZeroSteps + 1);

// Returns the group number `choice` among those near `present`, `choice` < kNearby.
inline GroupOf4Bits nearby(GroupOf4Bits present, size_t choice) {
  constexpr int kZeros = 2 * kZeroSteps + 1;
  const int sc = static_cast<int>(choice) / kZeros - kMultiplierSteps;
  const int zz = static_cast<int>(choice) % kZeros - kZeroSteps;
  return {std::clamp(present.multiplier + sc, 1, 16),
          std::clamp(present.twice_zero_point + zz, 8, 23)};
}

using GroupTile = std::array<float, kMostColumns * kTileRows>;
using DescentTile = std::array<float, kDescentColumns * kTileRows>;

// The columns [first, last).
struct Columns {
  int64_t first, last;
};

// Computes product = kept · product + rows · matrix, with product [kTileRows, n], rows [kTileRows,
// k] and matrix [k, n], all column-major. Columns of `matrix` are `stride` apart.
inline void multiply_tile(const float* rows, const float* matrix, int64_t k, int64_t n,
                          int64_t stride, float kept, float* product) {
  blas().sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(kTileRows),
               static_cast<int>(n), static_cast<int>(k), 1.0F, rows, static_cast<int>(kTileRows),
               matrix, static_cast<int>(stride), kept, product, static_cast<int>(kTileRows));
}

// Rounds the columns of one group on a trial grid. Each column compensates the errors of the
// group's columns before it (nearest plane).
struct GroupTrial {
  const float* target;
  const float* upper;  // [count, stride], column-major
  int64_t count, stride;

  // Writes the codes [count, kTileRows] and each row's share of J.
  void round(const TileGrid& grid, CodeRange range, GroupTile& codes, RowValues& cost) const {
    GroupTile wanted;
    std::fill_n(wanted.begin(), count * kTileRows, 0.0F);
    cost.fill(0);
    for (int64_t j = 0; j < count; ++j) {
      const float pivot = upper[j * stride + j], inverse = 1.0F / pivot;
      float* const code = codes.data() + j * kTileRows;
      const float* const t = target + j * kTileRows;
      const float* const sum = wanted.data() + j * kTileRows;
      RowValues error;
      for (int64_t r = 0; r < kTileRows; ++r) {
        code[r] = nearest_code(t[r] + sum[r] * inverse, grid, r, range);
        error[static_cast<size_t>(r)] = t[r] - grid_value(code[r], grid, r);
        const float residual = sum[r] + pivot * error[static_cast<size_t>(r)];
        cost[static_cast<size_t>(r)] += residual * residual;
      }
      for (int64_t k = j + 1; k < count; ++k) {
        add_column(upper[k * stride + j], error.data(), wanted.data() + k * kTileRows);
      }
    }
  }

  // Writes each row's J for these errors [count, kTileRows] from the target.
  void cost_of(const float* errors, RowValues& cost) const {
    cost.fill(0);
    for (int64_t j = 0; j < count; ++j) {
      RowValues residual{};
      for (int64_t i = 0; i <= j; ++i) {
        add_column(upper[j * stride + i], errors + i * kTileRows, residual.data());
      }
      for (size_t r = 0; r < kTileRows; ++r) cost[r] += residual[r] * residual[r];
    }
  }
};

// Solves x·U·Uᵀ = b and writes x [count, kTileRows] over b.
inline void solve_group(const float* upper, int64_t count, int64_t stride, float* b) {
  // First y with y·Uᵀ = b, from the last column to the first, then x with x·U = y.
  for (int64_t j = 0; j < count; ++j) {
    const int64_t k = count - 1 - j;
    float* const y = b + k * kTileRows;
    for (int64_t i = k + 1; i < count; ++i)
      add_column(-upper[i * stride + k], b + i * kTileRows, y);
    for (int64_t r = 0; r < kTileRows; ++r) y[r] /= upper[k * stride + k];
  }
  for (int64_t k = 0; k < count; ++k) {
    float* const x = b + k * kTileRows;
    for (int64_t i = 0; i < k; ++i) add_column(-upper[k * stride + i], b + i * kTileRows, x);
    for (int64_t r = 0; r < kTileRows; ++r) x[r] /= upper[k * stride + k];
  }
}

// Holds kTileRows rows with their grids, codes and errors.
class RowRounding {
 public:
  // Fits the grids to `weight` [columns, kTileRows]. `group_roots` are gram.group_roots() for 4
  // bits, otherwise empty. References must stay valid.
  RowRounding(const RoundingGram& gram, const std::vector<float>& group_roots,
              ops::LowBitFormat format, std::vector<float> weight);

  void round_in_order();
  void sweep(bool choose_grids);

  // Returns the grids and codes. The object must not be used afterwards.
  RoundedRows take() { return {std::move(grids_), std::move(code_)}; }

 private:
  // Gives a column the codes nearest to `target` and updates its errors.
  void place(int64_t column, const float* target);
  void set_error(int64_t column);
  void choose_groups(int64_t block, float* gradient);
  void choose_group(int64_t group, const float* gradient);
  TileGrid trial_grid(int64_t group, std::span<const ops::GroupOf4Bits> present,
                      size_t choice) const;
  void fit_scale(int64_t block, float* gradient);
  void descend(const Columns& block, float* gradient);
  void descend_part(const Columns& part, const float* gradient, DescentTile& changes);
  void add_changes(const Columns& block, const Columns& changed, const float* changes,
                   float* gradient) const;

  const RoundingGram& gram_;
  const std::vector<float>& group_roots_;
  RowGrids grids_;
  std::vector<float> weight_, error_;  // [columns, kTileRows]
  std::vector<uint8_t> code_;          // [columns, kTileRows]
};

inline RowRounding::RowRounding(const RoundingGram& gram, const std::vector<float>& group_roots,
                                ops::LowBitFormat format, std::vector<float> weight)
    : gram_(gram),
      group_roots_(group_roots),
      grids_(format, gram.columns),
      weight_(std::move(weight)),
      error_(weight_.size()),
      code_(weight_.size()) {
  fit_grids(weight_.data(), gram_.diagonal.data(), grids_);
}

inline void RowRounding::set_error(int64_t column) {
  const TileGrid& grid = grids_.grid[static_cast<size_t>(grids_.group_of(column))];
  const float* const w = weight_.data() + column * kTileRows;
  const uint8_t* const code = code_.data() + column * kTileRows;
  float* const error = error_.data() + column * kTileRows;
  for (int64_t r = 0; r < kTileRows; ++r) {
    error[r] = w[r] - grid_value(static_cast<float>(code[r]), grid, r);
  }
}

inline void RowRounding::place(int64_t column, const float* target) {
  const TileGrid& grid = grids_.grid[static_cast<size_t>(grids_.group_of(column))];
  uint8_t* const code = code_.data() + column * kTileRows;
  for (int64_t r = 0; r < kTileRows; ++r) {
    code[r] =
        static_cast<uint8_t>(static_cast<int>(nearest_code(target[r], grid, r, grids_.range)));
  }
  set_error(column);
}

inline void RowRounding::round_in_order() {
  const int64_t size = gram_.columns;
  std::vector<float> errors(error_.size());  // in the order of gram_.order
  std::vector<float> sums(kOrderBlock * kTileRows);
  for (int64_t first = 0; first < size; first += kOrderBlock) {
    const int64_t count = std::min(kOrderBlock, size - first);
    multiply_tile(errors.data(), gram_.upper.data() + first * size, first, count, size, 0.0F,
                  sums.data());
    for (int64_t j = 0; j < count; ++j) {
      const int64_t column = gram_.order[static_cast<size_t>(first + j)];
      // Row first + j of U; U(first + j, k) is at k · size.
      const float* const row = gram_.upper.data() + first + j;
      const float inverse = 1.0F / row[(first + j) * size];
      RowValues target;
      for (int64_t r = 0; r < kTileRows; ++r) {
        target[static_cast<size_t>(r)] = weight_[static_cast<size_t>(column * kTileRows + r)] +
                                         sums[static_cast<size_t>(j * kTileRows + r)] * inverse;
      }
      place(column, target.data());
      const float* const error = error_.data() + column * kTileRows;
      std::copy_n(error, kTileRows, errors.data() + (first + j) * kTileRows);
      for (int64_t k = j + 1; k < count; ++k) {
        add_column(row[(first + k) * size], error, sums.data() + k * kTileRows);
      }
    }
  }
}

// Adds the effect of `changes` in the errors of columns `changed` to the gradient of `block`.
inline void RowRounding::add_changes(const Columns& block, const Columns& changed,
                                     const float* changes, float* gradient) const {
  multiply_tile(changes, gram_.h.data() + block.first * gram_.columns + changed.first,
                changed.last - changed.first, block.last - block.first, gram_.columns, 1.0F,
                gradient);
}

inline void RowRounding::sweep(bool choose_grids) {
  const int64_t size = gram_.columns;
  std::vector<float> gradient(ops::kQuantGroup * kTileRows);  // e·H, half the gradient of J
  for (int64_t b = 0; b < grids_.blocks(); ++b) {
    const int64_t first = b * ops::kQuantGroup;
    multiply_tile(error_.data(), gram_.h.data() + first * size, size, grids_.block_end(b) - first,
                  size, 0.0F, gradient.data());
    if (choose_grids) {
      if (grids_.format.bits == 4) choose_groups(b, gradient.data());
      fit_scale(b, gradient.data());
    }
    for (int pass = 0; pass < kPasses; ++pass) {
      descend({first, grids_.block_end(b)}, gradient.data());
    }
  }
}

inline void RowRounding::descend(const Columns& block, float* gradient) {
  DescentTile changes;
  for (int64_t first = block.first; first < block.last; first += kDescentColumns) {
    const Columns part = {first, std::min(block.last, first + kDescentColumns)};
    descend_part(part, gradient + (first - block.first) * kTileRows, changes);
    add_changes(block, part, changes.data(), gradient);
  }
}

// J is a parabola in the value of each code, with its minimum where the gradient is 0. The nearest
// code to that minimum is therefore the best one.
inline void RowRounding::descend_part(const Columns& part, const float* gradient,
                                      DescentTile& changes) {
  DescentTile own;  // the gradient, including the changes within this part
  std::copy_n(gradient, (part.last - part.first) * kTileRows, own.begin());
  RowValues target;
  for (int64_t c = part.first; c < part.last; ++c) {
    const float inverse = 1.0F / gram_.diagonal[static_cast<size_t>(c)];
    const float* const error = error_.data() + c * kTileRows;
    const float* const w = weight_.data() + c * kTileRows;
    const float* const g = own.data() + (c - part.first) * kTileRows;
    float* const change = changes.data() + (c - part.first) * kTileRows;
    for (int64_t r = 0; r < kTileRows; ++r) {
      change[r] = -error[r];
      target[static_cast<size_t>(r)] = w[r] - error[r] + g[r] * inverse;
    }
    place(c, target.data());
    for (int64_t r = 0; r < kTileRows; ++r) change[r] += error[r];
    const float* const h = gram_.h.data() + c * gram_.columns;
    for (int64_t k = c + 1; k < part.last; ++k) {
      add_column(h[k], change, own.data() + (k - part.first) * kTileRows);
    }
  }
}

// Chooses multiplier, zero point and codes of each group among those near the present ones, so that
// they cost least.
inline void RowRounding::choose_groups(int64_t block, float* gradient) {
  const Columns all = {block * ops::kQuantGroup, grids_.block_end(block)};
  for (int64_t g = grids_.first_group(block); g < grids_.first_group(block + 1); ++g) {
    const Columns own = {g * grids_.format.group, grids_.group_end(g)};
    GroupTile change;
    float* const error = error_.data() + own.first * kTileRows;
    const int64_t count = (own.last - own.first) * kTileRows;
    for (int64_t i = 0; i < count; ++i) change[static_cast<size_t>(i)] = -error[i];
    choose_group(g, gradient + (own.first - all.first) * kTileRows);
    for (int64_t c = own.first; c < own.last; ++c) set_error(c);
    for (int64_t i = 0; i < count; ++i) change[static_cast<size_t>(i)] += error[i];
    add_changes(all, own, change.data(), gradient);
  }
}

// With all other groups fixed, J is least where the group's values differ from the present ones by
// gradient · P⁻¹. P is the group's diagonal block of H. From that minimum J grows as the quadratic
// form of P, so the target of the trials is the minimum.
inline void RowRounding::choose_group(int64_t g, const float* gradient) {
  const int64_t stride = grids_.format.group, begin = g * stride;
  const int64_t count = grids_.group_end(g) - begin;
  const float* const upper = group_roots_.data() + begin * stride;
  GroupTile away, target, codes;
  std::copy_n(gradient, count * kTileRows, away.begin());
  solve_group(upper, count, stride, away.data());
  for (int64_t i = 0; i < count * kTileRows; ++i) {
    const auto at = static_cast<size_t>(i), in_row = static_cast<size_t>(begin * kTileRows + i);
    target[at] = weight_[in_row] - error_[in_row] + away[at];
  }
  const GroupTrial trial = {target.data(), upper, count, stride};
  RowValues least, cost;
  trial.cost_of(away.data(), least);
  GroupOf4Bits* const chosen = grids_.group.data() + g * kTileRows;
  std::array<GroupOf4Bits, kTileRows> present;
  std::copy_n(chosen, kTileRows, present.begin());
  for (size_t choice = 0; choice < kNearby; ++choice) {
    const TileGrid grid = trial_grid(g, present, choice);
    trial.round(grid, grids_.range, codes, cost);
    for (size_t r = 0; r < kTileRows; ++r) {
      const GroupOf4Bits tried = nearby(present[r], choice);
      if (cost[r] >= least[r] || !tried.fits()) continue;
      least[r] = cost[r];
      chosen[r] = tried;
      for (int64_t c = 0; c < count; ++c) {
        const auto at = static_cast<size_t>(c * kTileRows) + r;
        code_[static_cast<size_t>(begin * kTileRows) + at] = static_cast<uint8_t>(codes[at]);
      }
    }
  }
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
