#pragma once
// Which elements of a vector stand for the others, and how the weights change.
//
// A subspace of rank r in n dimensions, with a basis b [n, r], has r pivots: rows b_P that can be
// inverted. The other rows are then map · b_P, and an identity matrix takes the place of b_P (PIFA,
// arXiv 2501.19090). Pivots by QR with column pivoting and swaps until no entry of `map` is much
// above 1 leave rounding errors as they are without pivots.
//
// Letters of ops/weights.h, transposed as checkpoints hold them: weights w_t [N, K].

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/stored_format.h"

namespace neuronmm::compress {

struct PivotChoice {
  std::vector<int32_t> index;   // [r], ascending
  std::vector<int32_t> others;  // [n - r], ascending
  DoubleMatrix map;             // [n - r, r]

  double largest() const;  // |map|
};
// `basis` [n, r], r < n, with orthonormal columns.
Result<PivotChoice> choose_pivots(const DoubleMatrix& basis);

// The identity in the rows `index`, `map` [n - r, r] in the others: [n, r].
DoubleMatrix expanded(const std::vector<int32_t>& index, const DoubleMatrix& map);

// Below, `stored` is how the weights will lie in the checkpoint. Their maps are rounded as
// map_format(stored) says, and the weights fitted to that; they are for the caller to round.

// One or more weights that read the same x through t = x[index] + d·x[others].
struct NarrowInput {
  std::vector<int32_t> index;           // [r]
  DoubleMatrix d;                       // [r, K - r], rounded
  std::vector<DoubleMatrix> weights_t;  // [N, r] each, to be rounded
  double largest = 0.0;                 // |d|
};
// What a weight's row counts: errors of its output are worth Σ row_weights[i] · error[i]².
struct InputWeight {
  const DoubleMatrix* w_t = nullptr;  // [N, K]
  std::vector<double> row_weights;    // [N]
};
// Σ over the weights of w_tᵀ·diag(row_weights)·w_t, [K, K].
DoubleMatrix weighted_square(const std::vector<InputWeight>& weights);
// Half the sum of the discarded squared singular values at every rank: loss[r], r = 0 ... K, of the
// weights whose weighted_square() is `square`. `root` [K, K], S·Sᵀ = G, the mean over tokens of x·xᵀ.
Result<std::vector<double>> input_losses(const DoubleMatrix& square, const DoubleMatrix& root);
Result<NarrowInput> narrow_input(const std::vector<InputWeight>& weights, const DoubleMatrix& gram,
                                 const DoubleMatrix& root, int64_t rank,
                                 const StoredFormat& stored);

// A weight whose y has y[index] = w_t·x and y[others] = c·(w_t·x).
struct NarrowOutput {
  std::vector<int32_t> index;  // [r]
  DoubleMatrix c;              // [N - r, r], rounded
  DoubleMatrix w_t;            // [r, K], to be rounded
  double largest = 0.0;        // |c|
};
// loss[r] = half the sum of the eigenvalues behind the r largest, of metric_rootᵀ·gram_out·
// metric_root or what else an error is measured by; reads the lower triangle.
Result<std::vector<double>> losses_of_ranks(DoubleMatrix energies);
// Errors e of y cost eᵀ·metric·e / 2. `metric_root` [N, N], R·Rᵀ = metric; `gram_out` is the mean
// over tokens of y·yᵀ.
Result<NarrowOutput> narrow_output(const DoubleMatrix& w_t, const DoubleMatrix& gram_out,
                                   const DoubleMatrix& metric, const DoubleMatrix& metric_root,
                                   int64_t rank, const StoredFormat& stored);

}  // namespace neuronmm::compress
