#include "cpu/kernels.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/attention-inl.h"
#include "cpu/matmul-inl.h"
#include "cpu/vector_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

const Kernels* kernels() {
  static const Kernels table = {.target = hwy::TargetName(HWY_TARGET),
                                .tile_rows = kTileRows,
                                .multiply = multiply,
                                .attend = attend,
                                .silu_multiply = silu_multiply,
                                .add = add,
                                .rms_norm = rms_norm,
                                .rotate = rotate};
  return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {
HWY_EXPORT(kernels);

const Kernels& best_kernels() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());  // a test may have changed them
  return *HWY_DYNAMIC_DISPATCH(kernels)();
}

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
