#pragma once
// Products of activations with weights that are kept in a wider dtype than they are multiplied in.
// Includes torch: internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// A copy of a tensor in another dtype, made anew when the tensor has changed.
class NarrowCopy {
 public:
  // Of `weight`, always the same one; itself where it has the dtype.
  const at::Tensor& of(const at::Tensor& weight, at::ScalarType type);

 private:
  at::Tensor copy_;
  uint32_t version_ = 0;
};

// a · b, in their dtype, with sums in fp32 at least. torch adds up bf16 in bf16 where oneDNN does
// not multiply it; everywhere but on x86 with AVX-512 the factors are widened first.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);

// x · weightᵀ, x [..., in] and `narrow` [out, in] of one dtype, in it; the gradient is that of
// `weight`, of which `narrow` is a copy.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& narrow);

}  // namespace neuronmm::finetune
