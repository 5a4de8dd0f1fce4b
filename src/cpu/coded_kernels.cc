// Compiles the kernels of coded weights for every instruction set.

#include "cpu/kernel_parts.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/coded_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/coded_matmul-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

void set_coded(Kernels& kernels) { kernels.multiply_coded = multiply_part<CodedProduct>; }

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {

HWY_EXPORT(set_coded);

void set_coded_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(set_coded)(kernels); }

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
