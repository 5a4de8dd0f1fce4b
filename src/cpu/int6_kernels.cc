// Compiles the kernels of weights of 6 bits for every instruction set.

#include "cpu/kernel_parts.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/int6_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_int8_matmul-inl.h"
#include "cpu/low_bit_matmul-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

void set_int6(Kernels& kernels) {
  with_byte_product(kernels, [&](auto product) {
    kernels.multiply_int6 = multiply_low_bit<Int6Codes, typename decltype(product)::type>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {

HWY_EXPORT(set_int6);

void set_int6_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(set_int6)(kernels); }

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
