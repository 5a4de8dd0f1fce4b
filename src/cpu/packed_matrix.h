#pragma once
// A weight W[K,N] in the order in which the kernels read it. It consists of panels of 32 columns; a
// panel has K rows of 32 weights, and the last panel is padded with zeros. The order is the same
// for every instruction set.
//
//   fp32: Row k of a panel holds its columns 0 ... 31.
//   bf16: For every 2 rows k there are 32 words of 32 bits. Word j holds (k, j) in its low half and
//         (k + 1, j) in its high half. Instructions for dot products of bf16 take this form; others
//         widen it to fp32 by one shift and one mask. Zeros follow up to a multiple of 32 rows.
//   int8: Each group of kQuantGroup rows begins with the 32 columns' scales in bf16, as 16 words:
//         word j has column j in its low half and column j + 16 in its high half. Then there are 32
//         words for every 4 rows k: word j holds the bytes (k, j) ... (k + 3, j), each + 128,
//         because x86 multiplies unsigned with signed bytes. Adding -128 times the sum of the
//         activations corrects the result.
//   int4: Each group of kQuantGroup rows begins with the scales as above. Its multipliers and zero
//         points (ops::GroupOf4Bits) follow: 16 pairs of bytes for every 16 or 32 rows, pair j for
//         columns j and j + 16. Then there is a line of 16 words for every 4 rows k. Byte i of word
//         j belongs to row k + i. The code of column j is in its low half, and the code of column
//         j + 16 is in its high half.
//   int6: Each group begins with the scales. Then there are, for every 8 rows k, two such lines
//         of the codes' low 4 bits and one of their high 2 bits. Byte i of word j of the last line
//         holds the high bits of four codes, beginning with its lowest bits. The first two are
//         those of row k + i, in columns j and j + 16. The other two are those of row k + 4 + i, in
//         the same columns.
//
//   coded: see coded_layout.h.
//
// Coded weights (base/coded_values.h) are expanded to bf16 if the CPU has products of bf16, and to
// fp32 otherwise (coded_matmul-inl.h). They take the packed activations of bf16 weights. int4 and
// int6 are expanded to the form of int8 (low_bit_matmul-inl.h) and take the same packed
// activations. Their rows k are padded to a multiple of 8. BF16 checkpoints stay bf16, and
// quantized ones keep their bits. Scales are rounded to bf16, which is what `quantize` writes.
// Other foreign formats become the nearest of ours, or fp32 (ForeignWeights). Every other dtype
// becomes fp32.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/coded_values.h"
#include "base/memory_domains.h"
#include "cpu/backend.h"
#include "cpu/buffer.h"
#include "cpu/coded_layout.h"
#include "cpu/packed_rows.h"
#include "ops/weights.h"

namespace neuronmm::cpu {

inline constexpr int64_t kPanel = 32;              // columns of a panel
inline constexpr int64_t kHalfPanel = kPanel / 2;  // columns of a vector of 512 bits

enum class WeightType { kFp32, kBf16, kInt8, kInt6, kInt4, kCoded };

// Returns the type of weights that takes rows packed in the same way.
inline WeightType rows_for(WeightType weights) {
  const bool low = weights == WeightType::kInt6 || weights == WeightType::kInt4;
  if (weights == WeightType::kCoded) return WeightType::kBf16;
  return low ? WeightType::kInt8 : weights;
}

inline constexpr int64_t kLineWords = kHalfPanel;

// The layout of a group of kQuantGroup rows in a panel of int6 or int4, in words.
struct LowBitLayout {
  // Rows of two lines (for int6 they share one line of high bits).
  static constexpr int64_t kRows = 8;

  int64_t multiplier_words = 0;  // words of multipliers after the scales; 0 for int6
  int64_t lines_words = 0;       // words of kRows rows
  constexpr int64_t first_line() const { return kHalfPanel + multiplier_words; }
  constexpr int64_t words(int64_t rows) const {
    return first_line() + (rows + kRows - 1) / kRows * lines_words;
  }
};
constexpr LowBitLayout layout_of_int4(int64_t multiplier_rows) {
  return {kQuantGroup / multiplier_rows * kHalfPanel / 2, 2 * kHalfPanel};
}
inline constexpr LowBitLayout kLayoutOfInt6 = {0, 3 * kHalfPanel};

// A packed weight matrix. Packing runs on all threads. If threads are bound to several memory
// domains (base/memory_domains.h), each domain after the first has a copy of the panels.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // w_t is [N, K], as checkpoints hold it. The panels take memory of `arena` if there is one.
  explicit PackedMatrix(const ops::WeightView& w_t,
                        ForeignWeights foreign = ForeignWeights::kNearest, Arena* arena = nullptr);
  // Makes a matrix of fp32 or bf16 whose panels the caller writes. What pads the last panel and the
  // depth of bf16 is set to zero. `storage` is memory to use again, or empty. There are no copies
  // for memory domains.
  PackedMatrix(int64_t k, int64_t n, WeightType type, Buffer<uint32_t> storage);
  uint32_t* panel_to_write(int64_t i) { return panel_at(i); }
  // Takes the memory away, for another matrix.
  Buffer<uint32_t> take_storage() { return std::move(words_); }
  // Returns how many words such a matrix needs.
  static int64_t storage_words(int64_t k, int64_t n, WeightType type);

  // Returns how much memory the panels of this weight will take. For coded weights, whose scales
  // decide on their layout, this is what they take in the checkpoint.
  static int64_t expected_bytes(const ops::WeightView& w_t, ForeignWeights foreign);

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t panels() const { return (n_ + kPanel - 1) / kPanel; }
  bool empty() const { return n_ == 0; }
  WeightType type() const { return type_; }
  int64_t size_bytes() const { return panels() * panel_words() * 4; }
  int64_t panel_words() const { return words_before(k_); }
  LowBitLayout low_bit_layout() const;                          // for int6 and int4
  int64_t multiplier_rows() const { return multiplier_rows_; }  // for int4: 16 or 32
  const CodedLayout& coded() const { return coded_; }           // for coded weights
  // Returns a panel, in the memory domain of the calling thread if there are copies.
  const uint32_t* panel(int64_t i) const { return words().data() + i * panel_words(); }
  // Returns the number of words of a panel before row k, which is a multiple of kQuantGroup or the
  // number of all rows. Those of coded weights include the scales and offsets of all rows.
  int64_t words_before(int64_t k) const;

 private:
  // Notes the shape and the type that a weight gets.
  void set_form(const ops::WeightView& w_t, ForeignWeights foreign);
  int64_t allocated_words() const;
  void allocate(Arena* arena);
  // Pack rows of a weight, which become columns of W from `first`, a multiple of kPanel, on.
  void pack(const ops::WeightView& rows, int64_t first);
  void pack_bf16(const TensorView& rows, int64_t first);
  void pack_fp32(const TensorView& rows, int64_t first);
  void pack_int8(const ops::WeightView& rows, int64_t first);
  void pack_low_bit(const ops::WeightView& rows, int64_t first);
  void pack_foreign(const TensorView& w_t, const LowBitFormat& format);
  void pack_rounded_to_int8(const TensorView& w_t);
  void round_columns(const TensorView& w_t, int64_t panel, int64_t first, int64_t count);
  void pack_coded(const TensorView& w_t, Arena* arena);
  uint32_t* panel_at(int64_t i) { return words_.data() + i * panel_words(); }
  void copy_to_domains();
  const Buffer<uint32_t>& words() const {
    const auto copy = static_cast<size_t>(thread_domain()) - 1;  // huge in the first domain
    return copy < copies_.size() ? copies_[copy] : words_;
  }

  int64_t k_ = 0, n_ = 0;
  WeightType type_ = WeightType::kFp32;
  int64_t multiplier_rows_ = 0;
  Buffer<uint32_t> words_;
  std::vector<Buffer<uint32_t>> copies_;  // copies_[i] is for domain i + 1
  CodedLayout coded_;
};

}  // namespace neuronmm::cpu
