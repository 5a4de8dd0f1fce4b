#pragma once
// Chooses pivots, the elements of a vector from which the others follow, and fits weights that use
// them. narrow_mlp.h builds narrow inputs and outputs with these functions. sizes/predicted_loss.h
// predicts losses with input_losses() and losses_of_ranks().
//
// A subspace of rank r in n dimensions, with a basis b [n, r], has r pivots: rows b_P that form an
// invertible matrix. The other rows are then map · b_P, so an identity matrix can take the place of
// b_P (PIFA, arXiv 2501.19090). Pivots come from QR with column pivoting, followed by swaps until
// no entry of `map` is much above 1. With such pivots rounding errors are as small as without
// pivots.
//
// Letters are those of ops/weights.h, and weights w_t [N, K] are transposed as checkpoints hold
// them. The functions fail only if a LAPACK routine does.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/rounding/stored_format.h"

namespace neuronmm::compress {

// The pivots of a subspace.
struct PivotChoice {
  std::vector<int32_t> index;   // [r], ascending
  std::vector<int32_t> others;  // [n - r], ascending
  DoubleMatrix map;             // [n - r, r], the other rows as combinations of the pivots

  // Returns the largest absolute entry of the map.
  double largest() const;
};
// Chooses the pivots of a basis [n, r], r < n, with orthonormal columns.
Result<PivotChoice> choose_pivots(const DoubleMatrix& basis);

// Returns the matrix [n, r] with the identity in the rows `index` and `map` [n - r, r] in the other
// rows.
DoubleMatrix identity_and_map(const std::vector<int32_t>& index, const DoubleMatrix& map);

// In the functions below, `stored` is how the weights will be stored in the checkpoint. Maps are
// rounded to map_format(stored), and the weights are fitted to the rounded maps. The returned
// weights are not rounded yet; the caller rounds them.

// A group of weights that read the same x through t = x[index] + d·x[others].
struct NarrowInput {
  std::vector<int32_t> index;           // [r]
  DoubleMatrix d;                       // [r, K - r], rounded
  std::vector<DoubleMatrix> weights_t;  // [N, r] each, not rounded yet
  double largest = 0.0;                 // the largest |entry| of d before rounding
};
// A weight and the importance of its rows: an error of its output costs Σ row_weights[i] ·
// error[i]².
struct InputWeight {
  const DoubleMatrix* w_t = nullptr;  // [N, K]
  std::vector<double> row_weights;    // [N]
};
// Returns Σ w_tᵀ·diag(row_weights)·w_t [K, K] over the weights.
DoubleMatrix weighted_square(const std::vector<InputWeight>& weights);
// Returns the loss of every rank r = 0 ... K of the weights whose weighted_square() is `square`.
// loss[r] is half the sum of the squared singular values that rank r discards. `root` [K, K] is a
// matrix S with S·Sᵀ = G, where G is the mean over tokens of x·xᵀ.
Result<std::vector<double>> input_losses(const DoubleMatrix& square, const DoubleMatrix& root);
// Returns an orthonormal basis [K, rank] of the inputs that matter most, by the same matrices.
Result<DoubleMatrix> input_basis(const DoubleMatrix& square, const DoubleMatrix& root,
                                 int64_t rank);
// Narrows the input of the weights to `rank` pivots. `gram` is G, and `root` is its root S.
Result<NarrowInput> narrow_input(const std::vector<InputWeight>& weights, const DoubleMatrix& gram,
                                 const DoubleMatrix& root, int64_t rank,
                                 const StoredFormat& stored);

// A weight whose output has y[index] = w_t·x and y[others] = c·(w_t·x).
struct NarrowOutput {
  std::vector<int32_t> index;  // [r]
  DoubleMatrix c;              // [N - r, r], rounded
  DoubleMatrix w_t;            // [r, K], not rounded yet
  double largest = 0.0;        // the largest |entry| of c before rounding
};
// Returns loss[r], half the sum of all eigenvalues after the r largest. `energies` is
// metric_rootᵀ·gram_out·metric_root or another matrix that measures errors. Only its lower triangle
// is read.
Result<std::vector<double>> losses_of_ranks(DoubleMatrix energies);
// Narrows the output of a weight to `rank` pivots. An error e of y costs eᵀ·metric·e / 2.
// `metric_root` [N, N] is a matrix R with R·Rᵀ = metric. `gram_out` is the mean over tokens of
// y·yᵀ.
Result<NarrowOutput> narrow_output(const DoubleMatrix& w_t, const DoubleMatrix& gram_out,
                                   const DoubleMatrix& metric, const DoubleMatrix& metric_root,
                                   int64_t rank, const StoredFormat& stored);

}  // namespace neuronmm::compress
