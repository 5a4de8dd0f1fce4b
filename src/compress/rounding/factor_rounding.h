#pragma once
// Prepares the two factors of a low-rank weight for rounding to few bits, without a calibration
// text. `quantize` and the factorizations of `compress` use it.

#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// The two factors of a weight W = v_t · u_t, [N, K].
struct FactorPair {
  DoubleMatrix v_t;  // [N, r]; applied second
  DoubleMatrix u_t;  // [r, K]; applied first
};

// Scales each column of v_t to length 1 and multiplies the row of u_t that belongs to it by the old
// length, so that the product stays the same. The columns of a group share a scale when they are
// rounded, so their sizes should be equal.
void balance_factors(DoubleMatrix& v_t, DoubleMatrix& u_t);

// Balances the factors and fits u_t to v_t as it will be after rounding to `format`. If rounding
// costs v_t its full column rank, u_t is only balanced. Neither factor of the result is rounded
// yet.
FactorPair fit_to_rounded(DoubleMatrix v_t, DoubleMatrix u_t, const LowBitFormat& format);

}  // namespace neuronmm::compress
