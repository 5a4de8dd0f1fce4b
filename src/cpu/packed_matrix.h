#pragma once
// A weight W[K,N] in the order in which the kernels read it: panels of 32 columns, each panel K
// rows of 32 weights one after the other, the last panel padded with zeros. The order is the same
// for every instruction set.
//
//   fp32: row k of a panel holds its columns 0 ... 31.
//   bf16: for every 2 rows k 32 words of 32 bits; word j holds (k, j) in its low and (k + 1, j) in
//         its high half: what instructions for dot products of bf16 take, and others widen to fp32
//         by one shift and one mask. Zeros up to a multiple of 32 rows.
//   int8: for each group of kQuantGroup rows, the 32 columns' scales in bf16 as 16 words, word j
//         with column j in its low and column j + 16 in its high half; then for every 4 rows k 32
//         words; word j holds the bytes (k, j) ... (k + 3, j), each + 128. Products of unsigned
//         weights and signed activations are what x86 has; the sum is corrected by -128 times that
//         of the activations.
//   int4: for each group of kQuantGroup rows the scales as above; then its multipliers and zero
//         points (ops::GroupOf4Bits), for every 16 or 32 rows 16 pairs of bytes, pair j of columns
//         j and j + 16; then for every 4 rows k a line of 16 words: byte i of word j holds the code
//         of (k + i, j) in its low and of (k + i, j + 16) in its high half.
//   int6: the scales; then for every 8 rows k two such lines of the codes' low 4 bits and one of
//         their high 2: byte i of word j holds those of (k + i, j), (k + i, j + 16), (k + 4 + i, j)
//         and (k + 4 + i, j + 16), the first in its lowest bits.
//
// int4 and int6 are expanded to what int8 holds (low_bit_matmul-inl.h) and take the same rows;
// their rows k are padded to a multiple of 8. BF16 checkpoints stay bf16, quantized ones have as
// many bits as there (scales are rounded to bf16, which is what `quantize` writes); every other
// dtype becomes fp32.

#include <cstdint>

#include "cpu/buffer.h"
#include "cpu/packed_rows.h"
#include "ops/weights.h"

namespace neuronmm::cpu {

inline constexpr int64_t kPanel = 32;              // columns of a panel
inline constexpr int64_t kHalfPanel = kPanel / 2;  // columns of a vector of 512 bits

enum class WeightType { kFp32, kBf16, kInt8, kInt6, kInt4 };

// The type of weights that takes rows packed in the same way.
inline WeightType rows_for(WeightType weights) {
  const bool low = weights == WeightType::kInt6 || weights == WeightType::kInt4;
  return low ? WeightType::kInt8 : weights;
}

inline constexpr int64_t kLineWords = kHalfPanel;

// A group of kQuantGroup rows in a panel of int6 or int4, in words.
struct LowBitLayout {
  static constexpr int64_t kRows = 8;  // two lines, and of int6 one of high bits

  int64_t multiplier_words = 0;  // after the scales; int6: 0
  int64_t lines_words = 0;       // of kRows
  constexpr int64_t first_line() const { return kHalfPanel + multiplier_words; }
  constexpr int64_t words(int64_t rows) const {
    return first_line() + (rows + kRows - 1) / kRows * lines_words;
  }
};
constexpr LowBitLayout layout_of_int4(int64_t multiplier_rows) {
  return {kQuantGroup / multiplier_rows * kHalfPanel / 2, 2 * kHalfPanel};
}
inline constexpr LowBitLayout kLayoutOfInt6 = {0, 3 * kHalfPanel};

class PackedMatrix {
 public:
  PackedMatrix() = default;
  explicit PackedMatrix(const ops::WeightView& w_t);  // [N, K], as checkpoints hold it

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t panels() const { return (n_ + kPanel - 1) / kPanel; }
  bool empty() const { return n_ == 0; }
  WeightType type() const { return type_; }
  int64_t size_bytes() const { return panels() * panel_words() * 4; }
  int64_t panel_words() const { return words_before(k_); }
  LowBitLayout low_bit_layout() const;                          // of int6 and int4
  int64_t multiplier_rows() const { return multiplier_rows_; }  // of int4: 16 or 32
  const uint32_t* panel(int64_t i) const { return words_.data() + i * panel_words(); }
  // Words of a panel before row k, a multiple of kQuantGroup or all rows.
  int64_t words_before(int64_t k) const;

 private:
  void allocate(int64_t padding_words);
  void pack_bf16(const TensorView& w_t);
  void pack_fp32(const TensorView& w_t);
  void pack_int8(const ops::WeightView& w_t);
  void pack_low_bit(const ops::WeightView& w_t);

  int64_t k_ = 0, n_ = 0;
  WeightType type_ = WeightType::kFp32;
  int64_t multiplier_rows_ = 0;
  Buffer<uint32_t> words_;
};

}  // namespace neuronmm::cpu
