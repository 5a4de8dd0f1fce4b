// Compiles the kernels of weights of 4 bits for every instruction set.

#include "cpu/kernel_parts.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/int4_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_int8_matmul-inl.h"
#include "cpu/low_bit_matmul-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

template <class ByteProduct>
void multiply_int4(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                   const float* bias, MutableMatrixView y) {
  if (w.multiplier_rows() == 16) {
    multiply_low_bit<Int4Codes<16>, ByteProduct>(a, w, part, bias, y);
  } else {
    multiply_low_bit<Int4Codes<32>, ByteProduct>(a, w, part, bias, y);
  }
}

void set_int4(Kernels& kernels) {
  with_byte_product(kernels, [&](auto product) {
    kernels.multiply_int4 = multiply_int4<typename decltype(product)::type>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {

HWY_EXPORT(set_int4);

void set_int4_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(set_int4)(kernels); }

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
