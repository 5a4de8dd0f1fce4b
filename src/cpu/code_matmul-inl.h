// Dot products of codes of 6 and 4 bits that are multiplied without expanding them to bytes, for
// one instruction set (see kernels.h, low_bit_codes-inl.h). Highway includes this file once per
// target.
//
// A weight's byte is a linear function of its code q. The sum of byte · x over some rows k can
// therefore be computed from the sums of q · x and of x, as the same integer. This is less work
// where x86 has no dot products of bytes. Codes are small enough for pmaddubsw, which multiplies 32
// of them and adds neighbours in 16 bits, and for more additions in 16 bits; bytes must be widened
// first.
//
// With AVX-512's dot products, codes gain for one row, where making bytes of codes takes longer
// than waiting for memory. Measured on Zen 4 (one core, in cache): one row of groups of 16 is a
// fifth faster, two rows are equal. With groups of 32 one row is equal and two rows are slower.

#if defined(NEURONMM_CPU_CODE_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_CODE_MATMUL_INL_H_
#undef NEURONMM_CPU_CODE_MATMUL_INL_H_
#else
#define NEURONMM_CPU_CODE_MATMUL_INL_H_
#endif

#include "cpu/int8_matmul-inl.h"
#include "cpu/low_bit_codes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Returns whether multiplying codes pays with this number of rows. The sums of 6-bit codes are
// pairs of 16 bits.
template <class Codes, class Dot>
constexpr bool multiplies_codes(int rows) {
  return Codes::kBits == 4 ? rows <= Dot::kCodeRows : Dot::kCodeRows == kTileRows;
}

#if HWY_TARGET != HWY_SCALAR
// Sets `sums` to, or adds to them, the codes of one line times x. The line is kLine lines after
// `line`, at which `lines` begin.
template <int kLine, bool kFirst, int R, int P, class Codes, class Dot>
HWY_INLINE void add_line_of_codes(const int32_t* const (&lines)[P], const int64_t (&column)[P],
                                  const int32_t* HWY_RESTRICT x, int64_t line, int64_t count,
                                  typename Dot::CodeSum (&sums)[R][2 * P]) {
  for (int p = 0; p < P; ++p) {
    prefetch_line<R, kLine, Codes, Dot>(lines[p]);
    WordVector q[2];
    Codes::template codes<kLine>(lines[p], column[p], q);
    for (int r = 0; r < R; ++r) {
      const WordVector value = hn::Set(Words(), x[Interleaved::offset<R>(r, line + kLine, count)]);
      for (int half = 0; half < 2; ++half) {
        auto& sum = sums[r][2 * p + half];
        sum = kFirst ? Dot::multiply_codes(q[half], value) : Dot::add_codes(sum, q[half], value);
      }
    }
  }
}

// Sets `products` to one group of A (`count` words per row) times P vectors of words at `column` of
// a line, in the same form as for int8 weights. byte = sc · q - zero, with one sc and one zero for
// kLines lines. The sums of q · x stay within ±30,480, so they fit into 16 bits.
template <int R, int P, class Codes, class Dot>
requires(Codes::kBits == 4) HWY_INLINE
    void dot_codes(const int32_t* HWY_RESTRICT a, int64_t count, const int32_t* const (&group)[P],
                   const int64_t (&column)[P], WordVector (&products)[R][2 * P]) {
  const int32_t* HWY_RESTRICT x = a + kHeaderWords * R;
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2 * P; ++v) products[r][v] = hn::Zero(Words());
  }
  for (int64_t first = 0; first < count; first += kPieceWords) {
    using Factors = decltype(Codes::factors(group[0], 0, 0));
    Factors factors[P];
    for (int p = 0; p < P; ++p) factors[p] = Codes::factors(group[p], column[p], first);
    for (int r = 0; r < R; ++r) {
      const WordVector sums_of_x = hn::Set(Words(), a[(2 + first / kPieceWords) * R + r]);
      for (int v = 0; v < 2 * P; ++v) {
        products[r][v] = add_pairs(products[r][v], hn::BitCast(Pairs(), sums_of_x),
                                   factors[v / 2].of[Factors::kGroups][v % 2]);
      }
    }
    for (int g = 0; g < Factors::kGroups; ++g) {
      const int64_t line = first + g * Codes::kLines;
      const int32_t* lines[P];
      for (int p = 0; p < P; ++p) lines[p] = Codes::lines(group[p], column[p], line);
      typename Dot::CodeSum sums[R][2 * P];
      [&]<int... kLine>(std::integer_sequence<int, kLine...>) HWY_ATTR {
        (add_line_of_codes<kLine, kLine == 0, R, P, Codes, Dot>(lines, column, x, line, count,
                                                                sums),
         ...);
      }
      (std::make_integer_sequence<int, Codes::kLines>());
      for (int r = 0; r < R; ++r) {
        for (int v = 0; v < 2 * P; ++v) {
          products[r][v] =
              Dot::add_multiple(products[r][v], sums[r][v], factors[v / 2].of[g][v % 2]);
        }
      }
    }
  }
}

// Adds 6-bit codes times x to `products`, for the lines kLine and kLine + 1 after `line`.
template <int kLine, int R, int P, class Codes, class Dot>
HWY_INLINE void add_two_lines_of_codes(const int32_t* const (&lines)[P], const int64_t (&column)[P],
                                       const int32_t* HWY_RESTRICT x, int64_t line, int64_t count,
                                       WordVector (&products)[R][2 * P]) {
  for (int p = 0; p < P; ++p) {
    prefetch_line<R, kLine, Codes, Dot>(lines[p]);
    prefetch_line<R, kLine + 1, Codes, Dot>(lines[p]);
    WordVector q[2][2];
    Codes::template codes<kLine>(lines[p], column[p], q[0]);
    Codes::template codes<kLine + 1>(lines[p], column[p], q[1]);
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < R; ++r) {
        const int64_t at = Interleaved::offset<R>(r, line + kLine, count);
        const int64_t next = Interleaved::offset<R>(r, line + kLine + 1, count);
        auto sum = Dot::multiply_codes(q[0][half], hn::Set(Words(), x[at]));
        sum = Dot::add_codes(sum, q[1][half], hn::Set(Words(), x[next]));
        WordVector& product = products[r][2 * p + half];
        product = Dot::add_multiple(product, sum, hn::Set(Pairs(), int16_t{1}));
      }
    }
  }
}

// Sets `products` as above, for 6 bits. byte = q - 32, and the sums of q · x over two lines stay
// within ±32,004.
template <int R, int P, class Codes, class Dot>
requires(Codes::kBits == 6) HWY_INLINE
    void dot_codes(const int32_t* HWY_RESTRICT a, int64_t count, const int32_t* const (&group)[P],
                   const int64_t (&column)[P], WordVector (&products)[R][2 * P]) {
  const int32_t* HWY_RESTRICT x = a + kHeaderWords * R;
  for (int r = 0; r < R; ++r) {  // the correction is -128 · sum of x, and -32 · sum of x is needed
    for (int v = 0; v < 2 * P; ++v) products[r][v] = hn::Set(Words(), a[R + r] / 4);
  }
  for (int64_t line = 0; line < count; line += kPieceWords) {
    const int32_t* lines[P];
    for (int p = 0; p < P; ++p) lines[p] = Codes::lines(group[p], column[p], line);
    add_two_lines_of_codes<0, R, P, Codes, Dot>(lines, column, x, line, count, products);
    add_two_lines_of_codes<2, R, P, Codes, Dot>(lines, column, x, line, count, products);
    add_two_lines_of_codes<4, R, P, Codes, Dot>(lines, column, x, line, count, products);
    add_two_lines_of_codes<6, R, P, Codes, Dot>(lines, column, x, line, count, products);
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_CODE_MATMUL_INL_H_
