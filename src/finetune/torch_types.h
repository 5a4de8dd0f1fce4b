#pragma once
// From dtypes of tensors to types of loops. Includes torch: internal to this folder.

#include <ATen/ATen.h>

#include "base/result.h"

namespace neuronmm::finetune {

// Assumed: elements that are worth a thread of their own.
inline constexpr int64_t kParallelElements = 1 << 14;

// body.template operator()<V, D>(): V of values, D of products: fp64 both, fp32 both, or fp32 and
// bf16.
template <typename Body>
void for_types(at::ScalarType values, at::ScalarType products, const Body& body) {
  if (values == at::kDouble) {
    NMM_CHECK(products == at::kDouble);
    body.template operator()<double, double>();
  } else if (products == at::kBFloat16) {
    NMM_CHECK(values == at::kFloat);
    body.template operator()<float, at::BFloat16>();
  } else {
    NMM_CHECK(values == at::kFloat && products == at::kFloat);
    body.template operator()<float, float>();
  }
}

// That values are computed in beside products in `products`.
inline at::ScalarType values_of(at::ScalarType products) {
  return products == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace neuronmm::finetune
