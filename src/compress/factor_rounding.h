#pragma once
// The two factors of a low-rank weight as factors of few bits.

#include "compress/linear_algebra.h"

namespace neuronmm::compress {

struct FactorPair {
  DoubleMatrix v_t;  // [N, r]; applied second
  DoubleMatrix u_t;  // [r, K]; applied first
};

// Makes the columns of v_t as long as 1, because a group of them shares a scale when they are
// rounded, and multiplies the rows of u_t by their lengths, so that the product stays the same.
void balance(DoubleMatrix& v_t, DoubleMatrix& u_t);

// Balances existing factors and fits u_t to what rounding makes of v_t, unless rounding costs v_t
// its full column rank. The result is not rounded yet.
FactorPair fit_to_rounded(DoubleMatrix v_t, DoubleMatrix u_t, const LowBitFormat& format);

}  // namespace neuronmm::compress
