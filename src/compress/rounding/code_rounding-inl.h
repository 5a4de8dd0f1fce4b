// The parts of rounding by a Gram matrix that do not depend on the format of the codes, for
// kTileRows rows of a weight. The cost of rounding is J, the sum over rows of e·H·eᵀ, with e = w -
// value and H the damped Gram matrix of the layer's input.
//
//   round_in_order   Gives one column after the other the codes nearest to its target, which
//                    compensates the errors of the columns before it. This is GPTQ, or Babai's
//                    nearest plane: if H = U·Uᵀ and U is upper triangular, J is the squared norm of
//                    e·U. A column of e·U depends only on the errors of that column and of the
//                    columns before it.
//   descend          Improves the codes of some columns by coordinate descent. J never grows.
//   try_grids        Chooses another grid and other codes for a group if they cost less.
//
// row_rounding-inl.h uses them for our own formats, and block_rounding/block_rows-inl.h for the
// block types of GGUF. This file is for one instruction set; Highway includes it once per target.

#if defined(NEURONMM_COMPRESS_CODE_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_COMPRESS_CODE_ROUNDING_INL_H_
#undef NEURONMM_COMPRESS_CODE_ROUNDING_INL_H_
#else
#define NEURONMM_COMPRESS_CODE_ROUNDING_INL_H_
#endif

#include <array>
#include <cstdint>
#include <vector>

#include "compress/linear_algebra/blas.h"
#include "compress/rounding/rounding_gram.h"
#include "compress/rounding/row_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

// The number of columns in which errors are propagated one column at a time. The errors of all
// earlier columns are added by one matrix product. Assumed.
constexpr int64_t kOrderBlock = 64;
// The number of passes of the coordinate descent over a block. The second pass gains little, but it
// is cheap compared with the matrix product for the block's gradient. Assumed.
constexpr int kPasses = 2;
// The number of columns in which the coordinate descent propagates changes one column at a time.
// The gradient of that many columns stays in the first-level cache. Assumed.
constexpr int64_t kDescentColumns = 32;
// The most columns that share a grid and are tried together: those of the largest group of a
// format.
constexpr int64_t kMostColumns = 32;
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

// Holds kTileRows rows with their grids, codes and errors. Grids has the members `range`, `grid`
// (a TileGrid per group of columns), group_of(column), group_columns() and group_end(group).
template <typename Grids>
class CodeRounding {
 public:
  // `gram` must stay valid. `weight` is [columns, kTileRows].
  CodeRounding(const RoundingGram& gram, Grids grids, std::vector<float> weight)
      : gram_(gram),
        grids_(std::move(grids)),
        weight_(std::move(weight)),
        error_(weight_.size()),
        code_(weight_.size()) {}

  void round_in_order();

 protected:
  // Gives a column the codes nearest to `target` and updates its errors.
  void place(int64_t column, const float* target);
  void set_error(int64_t column);
  // Writes e·H for the columns of `block`, half the gradient of J.
  void compute_gradient(const Columns& block, float* gradient) const;
  void descend(const Columns& block, float* gradient);
  void descend_part(const Columns& part, const float* gradient, DescentTile& changes);
  void add_changes(const Columns& block, const Columns& changed, const float* changes,
                   float* gradient) const;
  // Calls choose(group, gradient of the group) for each group in `block`. It may change grids and
  // codes; errors and gradient follow.
  template <typename Choose>
  void change_groups(const Columns& block, float* gradient, const Choose& choose);
  // Tries the grids grid_of(choice) for group g, choice < count, with new codes. Where a row costs
  // less with a choice than before and fits(choice, row), it takes the codes, and take(choice, row)
  // is called. `roots` are gram.group_roots(grids_.group_columns()).
  template <typename GridOf, typename Fits, typename Take>
  void try_grids(int64_t g, const float* gradient, const std::vector<float>& roots, size_t count,
                 const GridOf& grid_of, const Fits& fits, const Take& take);

  const RoundingGram& gram_;
  Grids grids_;
  std::vector<float> weight_, error_;  // [columns, kTileRows]
  std::vector<uint8_t> code_;          // [columns, kTileRows]
};

template <typename Grids>
void CodeRounding<Grids>::set_error(int64_t column) {
  const TileGrid& grid = grids_.grid[static_cast<size_t>(grids_.group_of(column))];
  const float* const w = weight_.data() + column * kTileRows;
  const uint8_t* const code = code_.data() + column * kTileRows;
  float* const error = error_.data() + column * kTileRows;
  for (int64_t r = 0; r < kTileRows; ++r) {
    error[r] = w[r] - grid_value(static_cast<float>(code[r]), grid, r);
  }
}

template <typename Grids>
void CodeRounding<Grids>::place(int64_t column, const float* target) {
  const TileGrid& grid = grids_.grid[static_cast<size_t>(grids_.group_of(column))];
  uint8_t* const code = code_.data() + column * kTileRows;
  for (int64_t r = 0; r < kTileRows; ++r) {
    code[r] =
        static_cast<uint8_t>(static_cast<int>(nearest_code(target[r], grid, r, grids_.range)));
  }
  set_error(column);
}

template <typename Grids>
void CodeRounding<Grids>::round_in_order() {
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

template <typename Grids>
void CodeRounding<Grids>::compute_gradient(const Columns& block, float* gradient) const {
  const int64_t size = gram_.columns;
  multiply_tile(error_.data(), gram_.h.data() + block.first * size, size, block.last - block.first,
                size, 0.0F, gradient);
}

// Adds the effect of `changes` in the errors of columns `changed` to the gradient of `block`.
template <typename Grids>
void CodeRounding<Grids>::add_changes(const Columns& block, const Columns& changed,
                                      const float* changes, float* gradient) const {
  multiply_tile(changes, gram_.h.data() + block.first * gram_.columns + changed.first,
                changed.last - changed.first, block.last - block.first, gram_.columns, 1.0F,
                gradient);
}

template <typename Grids>
void CodeRounding<Grids>::descend(const Columns& block, float* gradient) {
  DescentTile changes;
  for (int64_t first = block.first; first < block.last; first += kDescentColumns) {
    const Columns part = {first, std::min(block.last, first + kDescentColumns)};
    descend_part(part, gradient + (first - block.first) * kTileRows, changes);
    add_changes(block, part, changes.data(), gradient);
  }
}

// J is a parabola in the value of each code, with its minimum where the gradient is 0. The nearest
// code to that minimum is therefore the best one.
template <typename Grids>
void CodeRounding<Grids>::descend_part(const Columns& part, const float* gradient,
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

template <typename Grids>
template <typename Choose>
void CodeRounding<Grids>::change_groups(const Columns& block, float* gradient,
                                        const Choose& choose) {
  for (int64_t g = grids_.group_of(block.first); g <= grids_.group_of(block.last - 1); ++g) {
    const Columns own = {g * grids_.group_columns(), grids_.group_end(g)};
    GroupTile change;
    float* const error = error_.data() + own.first * kTileRows;
    const int64_t count = (own.last - own.first) * kTileRows;
    for (int64_t i = 0; i < count; ++i) change[static_cast<size_t>(i)] = -error[i];
    choose(g, gradient + (own.first - block.first) * kTileRows);
    for (int64_t c = own.first; c < own.last; ++c) set_error(c);
    for (int64_t i = 0; i < count; ++i) change[static_cast<size_t>(i)] += error[i];
    add_changes(block, own, change.data(), gradient);
  }
}

// With all other groups fixed, J is least where the group's values differ from the present ones by
// gradient · P⁻¹. P is the group's diagonal block of H. From that minimum J grows as the quadratic
// form of P, so the target of the trials is the minimum.
template <typename Grids>
template <typename GridOf, typename Fits, typename Take>
void CodeRounding<Grids>::try_grids(int64_t g, const float* gradient,
                                    const std::vector<float>& roots, size_t count,
                                    const GridOf& grid_of, const Fits& fits, const Take& take) {
  const int64_t stride = grids_.group_columns(), begin = g * stride;
  const int64_t columns = grids_.group_end(g) - begin;
  const float* const upper = roots.data() + begin * stride;
  GroupTile away, target, codes;
  std::copy_n(gradient, columns * kTileRows, away.begin());
  solve_group(upper, columns, stride, away.data());
  for (int64_t i = 0; i < columns * kTileRows; ++i) {
    const auto at = static_cast<size_t>(i), in_row = static_cast<size_t>(begin * kTileRows + i);
    target[at] = weight_[in_row] - error_[in_row] + away[at];
  }
  const GroupTrial trial = {target.data(), upper, columns, stride};
  RowValues least, cost;
  trial.cost_of(away.data(), least);
  for (size_t choice = 0; choice < count; ++choice) {
    const TileGrid grid = grid_of(choice);
    trial.round(grid, grids_.range, codes, cost);
    for (size_t r = 0; r < kTileRows; ++r) {
      if (!(cost[r] < least[r]) || !fits(choice, r)) continue;
      least[r] = cost[r];
      take(choice, r);
      for (int64_t c = 0; c < columns; ++c) {
        const auto at = static_cast<size_t>(c * kTileRows) + r;
        code_[static_cast<size_t>(begin * kTileRows) + at] = static_cast<uint8_t>(codes[at]);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_COMPRESS_CODE_ROUNDING_INL_H_
