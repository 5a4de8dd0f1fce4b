// Compiles the kernels of coded weights for every instruction set.

#include "cpu/kernel_parts.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/coded_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_bf16_matmul-inl.h"
#include "cpu/coded_matmul-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

void set_coded(Kernels& kernels) {
  if (kernels.dot_products != DotProducts::kInt8AndBf16) {
    kernels.multiply_coded = multiply_coded<Fp32Dot>;
    return;
  }
  kernels.multiply_coded = multiply_coded<PairBf16Dot>;
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  if (!kernels.amx) return;
  using Product = CodedTiles<AmxBf16Product<AmxTiles, InstructionBf16Pairs>>;
  kernels.multiply_coded = multiply_in_pieces<Product>;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {

HWY_EXPORT(set_coded);

void set_coded_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(set_coded)(kernels); }

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
