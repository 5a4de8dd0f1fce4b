#pragma once
// A weight W[K,N] in the order in which the kernels read it: panels of 32 columns, each panel K
// rows of 32 weights one after the other, the last panel padded with zeros. The order is the same
// for every instruction set.
//
//   fp32: row k of a panel holds its columns 0 ... 31.
//   bf16: row k holds 16 words of 32 bits; word j has column j in its low half and column j + 16 in
//         its high half, so that one load, one shift and one mask give two vectors of fp32.
//
// BF16 checkpoints stay bf16; every other dtype becomes fp32.

#include <cstdint>

#include "base/tensor.h"
#include "cpu/buffer.h"

namespace neuronmm::cpu {

inline constexpr int64_t kPanel = 32;              // columns of a panel
inline constexpr int64_t kHalfPanel = kPanel / 2;  // columns of a vector of 512 bits

class PackedMatrix {
 public:
  PackedMatrix() = default;
  explicit PackedMatrix(const TensorView& w_t);  // [N, K], as checkpoints hold it

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t panels() const { return (n_ + kPanel - 1) / kPanel; }
  bool empty() const { return n_ == 0; }
  bool is_bf16() const { return is_bf16_; }
  int64_t size_bytes() const { return panels() * panel_words() * 4; }
  // K rows of kPanel floats, or of kHalfPanel words (see above).
  const float* fp32_panel(int64_t i) const { return fp32_.data() + i * panel_words(); }
  const uint32_t* bf16_panel(int64_t i) const { return bf16_.data() + i * panel_words(); }

 private:
  int64_t panel_words() const { return k_ * (is_bf16_ ? kHalfPanel : kPanel); }
  void pack_bf16(const TensorView& w_t);
  void pack_fp32(const TensorView& w_t);

  int64_t k_ = 0, n_ = 0;
  bool is_bf16_ = false;
  Buffer<float> fp32_;
  Buffer<uint32_t> bf16_;
};

}  // namespace neuronmm::cpu
