// Compiles multiply_tile for every instruction set that the machine may have. Highway chooses one
// at run time.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainium/simulator/multiply_tile.cc"
#include "trainium/simulator/multiply_tile.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::simulator {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kColumnPadding / 2>;
using Vector = hn::Vec<Floats>;

// Computes R rows of the product, where product[r][n] = sum over k of stationary[k][r] *
// moving[k][n]. A row of the product belongs to one column of the stationary tile. The sums, R rows
// of two vectors, stay in registers while k advances.
template <int R>
HWY_INLINE void multiply_rows(const float* HWY_RESTRICT stationary,
                              const float* HWY_RESTRICT moving, int64_t K, int64_t M, int64_t N,
                              float* HWY_RESTRICT product) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector low[R], high[R];
  for (int r = 0; r < R; ++r) low[r] = high[r] = hn::Zero(d);
  for (int64_t k = 0; k < K; ++k) {
    const Vector left = hn::LoadU(d, moving + k * N), right = hn::LoadU(d, moving + k * N + lanes);
    for (int r = 0; r < R; ++r) {
      const Vector weight = hn::Set(d, stationary[k * M + r]);
      low[r] = hn::MulAdd(weight, left, low[r]);
      high[r] = hn::MulAdd(weight, right, high[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    hn::StoreU(low[r], d, product + r * N);
    hn::StoreU(high[r], d, product + r * N + lanes);
  }
}

// The sums, 2 per row, and 3 operands nearly fill the registers: 27 of 32 on AVX3. Older sets use
// 15 of their 16 registers.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kRows = 12;
#else
inline constexpr int kRows = 6;
#endif

// Computes the columns in steps of two vectors, and the rows in steps of kRows, then 4, then 1. The
// grouping of the rows does not change the result: each element is its own sum over k, in order.
void multiply(const float* stationary, const float* moving, int64_t K, int64_t M, int64_t N,
              float* product) {
  const auto width = 2 * static_cast<int64_t>(hn::Lanes(Floats()));
  for (int64_t n = 0; n < N; n += width) {
    int64_t m = 0;
    for (; m + kRows <= M; m += kRows) {
      multiply_rows<kRows>(stationary + m, moving + n, K, M, N, product + m * N + n);
    }
    for (; m + 4 <= M; m += 4) {
      multiply_rows<4>(stationary + m, moving + n, K, M, N, product + m * N + n);
    }
    for (; m < M; ++m) {
      multiply_rows<1>(stationary + m, moving + n, K, M, N, product + m * N + n);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::simulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::simulator {

HWY_EXPORT(multiply);

// A product runs on one thread, because it is too short to be divided: 128 x 128 x 512 are 17
// MFLOP.
void multiply_tile(const float* stationary, const float* moving, int64_t K, int64_t M, int64_t N,
                   float* product) {
  HWY_DYNAMIC_DISPATCH(multiply)(stationary, moving, K, M, N, product);
}

}  // namespace neuronmm::simulator
#endif
