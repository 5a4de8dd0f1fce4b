#pragma once
// Maps the dtypes of tensors to the types of loops. This header includes torch and is internal to
// this folder.

#include <ATen/ATen.h>

#include "base/result.h"

namespace neuronmm::finetune {

// The number of elements that are worth a thread of their own. Assumed.
inline constexpr int64_t kParallelElements = 1 << 14;

// Calls body.template operator()<V, D>(), where V is the type of values and D the type of products.
// The pairs are fp64 with fp64, fp32 with fp32, and fp32 with bf16.
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

// Returns the dtype of values that goes with products in `products`.
inline at::ScalarType values_of(at::ScalarType products) {
  return products == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace neuronmm::finetune
