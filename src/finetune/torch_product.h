#pragma once
// Products of activations with weights that are kept in a wider dtype than the products have. This
// header includes torch and is internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// A copy of a tensor in another dtype, which is made again when the tensor has changed.
class CachedCast {
 public:
  // Returns `weight` in dtype `type`: the weight itself if it has that dtype, else the copy. Every
  // call on one object must pass the same weight.
  const at::Tensor& get(const at::Tensor& weight, at::ScalarType type);

 private:
  at::Tensor copy_;
  uint32_t version_ = 0;
};

// Returns a · b in the dtype of a and b, with sums in fp32 at least. torch sums bf16 in bf16 where
// oneDNN does not multiply it. Therefore the factors are widened first on all CPUs except x86 with
// AVX-512.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);

// Returns x · weightᵀ in the dtype of x [..., in]. `cast_weight` [out, in] is a copy of `weight` in
// that dtype. The gradient goes to `weight`.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cast_weight);

}  // namespace neuronmm::finetune
