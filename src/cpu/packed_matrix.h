#pragma once
// A weight W[K,N] in the order in which the kernels read it: panels of 32 columns, each panel K
// rows of 32 weights one after the other, the last panel padded with zeros. The order is the same
// for every instruction set.
//
//   fp32: row k of a panel holds its columns 0 ... 31.
//   bf16: for every 2 rows k 32 words of 32 bits; word j holds (k, j) in its low and (k + 1, j) in
//         its high half: what instructions for dot products of bf16 take, and others widen to fp32
//         by one shift and one mask.
//   int8: for each group of kQuantGroup rows, the 32 columns' scales in bf16 as 16 words, word j
//         with column j in its low and column j + 16 in its high half; then for every 4 rows k 32
//         words; word j holds the bytes (k, j) ... (k + 3, j), each + 128. Products of unsigned
//         weights and signed activations are what x86 has; the sum is corrected by -128 times that
//         of the activations.
//
// BF16 checkpoints stay bf16, quantized ones int8 (scales are rounded to bf16, which is what
// `quantize` writes); every other dtype becomes fp32.

#include <cstdint>

#include "cpu/buffer.h"
#include "ops/weights.h"

namespace neuronmm::cpu {

inline constexpr int64_t kPanel = 32;              // columns of a panel
inline constexpr int64_t kHalfPanel = kPanel / 2;  // columns of a vector of 512 bits

enum class WeightType { kFp32, kBf16, kInt8 };

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
  int64_t panel_words() const;
  const void* panel(int64_t i) const { return words_.data() + i * panel_words(); }

 private:
  void allocate(bool ragged_rows);
  void pack_bf16(const TensorView& w_t);
  void pack_fp32(const TensorView& w_t);
  void pack_int8(const ops::WeightView& w_t);

  int64_t k_ = 0, n_ = 0;
  WeightType type_ = WeightType::kFp32;
  Buffer<uint32_t> words_;
};

}  // namespace neuronmm::cpu
