// Compiles the kernels of int8 weights for every instruction set.

#include "cpu/kernel_parts.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/int8_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_int8_matmul-inl.h"
#include "cpu/int8_matmul-inl.h"
#include "cpu/pack_rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

template struct Int8Heights<Int8Dot<WidenedByteDot>>;
#if NEURONMM_CPU_ONE_BYTE_DOT
template struct Int8Heights<Int8Dot<OneByteDot>>;
#endif

template <class ByteProduct>
void set_products(Kernels& kernels) {
  kernels.int8_tile_rows = ByteProduct::kMostRows;
  kernels.quantize_tile = quantize_tile<ByteProduct>;
  kernels.multiply_int8 = multiply_bytes<ByteProduct>;
}

void set_int8(Kernels& kernels) {
  kernels.quantization_rest = quantization_rest;
  with_byte_product(kernels,
                    [&](auto product) { set_products<typename decltype(product)::type>(kernels); });
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {

HWY_EXPORT(set_int8);

void set_int8_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(set_int8)(kernels); }

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
