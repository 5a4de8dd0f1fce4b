#include "cpu/kernels.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/attention-inl.h"
#include "cpu/int8_matmul-inl.h"
#include "cpu/matmul-inl.h"
#include "cpu/pack_rows-inl.h"
#include "cpu/vector_math-inl.h"
// clang-format on

#if HWY_ONCE && HWY_ARCH_X86
#include <cpuid.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

template <class Dot>
void multiply(const PackedRows& a, const PackedMatrix& w, int64_t first_panel, int64_t panels,
              const float* bias, MutableMatrixView y) {
  switch (w.type()) {
    case WeightType::kFp32:
      return multiply_panels<FloatProduct<Fp32Weights>>(a, w, first_panel, panels, bias, y);
    case WeightType::kBf16:
      return multiply_panels<FloatProduct<Bf16Weights>>(a, w, first_panel, panels, bias, y);
    case WeightType::kInt8:
      return multiply_panels<Int8Product<Dot>>(a, w, first_panel, panels, bias, y);
  }
}

template <class Dot>
const Kernels* kernels_with() {
  static const std::string name = std::string(hwy::TargetName(HWY_TARGET)) + Dot::kSuffix;
  static const Kernels table = {.target = name.c_str(),
                                .tile_rows = kTileRows,
                                .pack_tile = pack_tile,
                                .quantize_tile = quantize_tile,
                                .multiply = multiply<Dot>,
                                .attend = attend,
                                .silu_multiply = silu_multiply,
                                .add = add,
                                .rms_norm = rms_norm,
                                .rotate = rotate};
  return &table;
}

const Kernels* kernels(bool byte_dot) {
  return byte_dot ? kernels_with<ByteDot>() : kernels_with<WidenedDot>();
}

int64_t target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {
namespace {

HWY_EXPORT(kernels);
HWY_EXPORT(target);

// Whether the CPU has the instruction that ByteDot uses in this target. Bits of CPUID leaf 7 as
// documented by Intel (Software Developer's Manual, volume 2A, CPUID).
bool has_byte_dot(int64_t target) {
#if HWY_ARCH_X86
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (target == HWY_AVX3) return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
  if (target == HWY_AVX2) return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
#endif
  static_cast<void>(target);
  return false;
}

bool byte_dot_allowed = true;

}  // namespace

const Kernels& best_kernels() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());  // a test may have changed them
  const bool byte_dot = byte_dot_allowed && has_byte_dot(HWY_DYNAMIC_DISPATCH(target)());
  return *HWY_DYNAMIC_DISPATCH(kernels)(byte_dot);
}

bool allow_byte_dot(bool allowed) { return std::exchange(byte_dot_allowed, allowed); }

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
