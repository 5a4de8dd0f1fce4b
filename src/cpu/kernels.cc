#include "cpu/kernels.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_bf16_matmul-inl.h"
#include "cpu/amx_int8_matmul-inl.h"
#include "cpu/attention-inl.h"
#include "cpu/int8_matmul-inl.h"
#include "cpu/low_bit_matmul-inl.h"
#include "cpu/matmul-inl.h"
#include "cpu/pack_rows-inl.h"
#include "cpu/vector_math-inl.h"
// clang-format on

#if HWY_ONCE && HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ONCE && HWY_ARCH_ARM_A64
#include <sys/auxv.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// The products of AMX where there is one, and those of other instructions.
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
using TileBf16Product = AmxBf16Product<AmxTiles>;
using TileByteProduct = AmxProduct<AmxTiles, OneByteDot>;
#else
using TileBf16Product = FloatProduct<PairBf16Dot>;
using TileByteProduct = Int8Product<OneByteDot>;
#endif

// The types of weights, each with the product that the template was made for: how pairs of
// bf16 and words of bytes are multiplied is decided once, when a table is chosen, and not at every
// call.
template <class Bf16Product, class ByteProduct>
void multiply(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
              const float* bias, MutableMatrixView y) {
  switch (w.type()) {
    case WeightType::kFp32:
      return multiply_part<FloatProduct<Fp32Dot>>(a, w, part, bias, y);
    case WeightType::kBf16:
      return multiply_part<Bf16Product>(a, w, part, bias, y);
    case WeightType::kInt8:
      return multiply_part<ByteProduct>(a, w, part, bias, y);
    case WeightType::kInt6:
      return multiply_low_bit<Int6Codes, ByteProduct>(a, w, part, bias, y);
    case WeightType::kInt4:
      return w.multiplier_rows() == 16
                 ? multiply_low_bit<Int4Codes<16>, ByteProduct>(a, w, part, bias, y)
                 : multiply_low_bit<Int4Codes<32>, ByteProduct>(a, w, part, bias, y);
  }
}

// The table is named after what it uses, which is what benchmarks print and what bug reports need.
template <class Bf16Product, class ByteProduct>
const Kernels* kernels_with() {
  constexpr bool kBf16 = !std::is_same_v<Bf16Product, FloatProduct<WidenedBf16Dot>>;
  constexpr bool kInt8 = !std::is_same_v<ByteProduct, Int8Product<WidenedByteDot>>;
  constexpr bool kAmx = ByteProduct::takes_rows(kTileRows);
  static const std::string name = std::string(hwy::TargetName(HWY_TARGET)) +
                                  (kInt8 ? "+int8" : "") + (kBf16 ? "+bf16" : "") +
                                  (kAmx ? "+amx" : "");
  static const Kernels table = {.target = name.c_str(),
                                .dot_products = kBf16   ? DotProducts::kInt8AndBf16
                                                : kInt8 ? DotProducts::kInt8
                                                        : DotProducts::kNone,
                                .amx = kAmx,
                                .tile_rows = kTileRows,
                                .bf16_tile_rows = Bf16Product::kMostRows,
                                .int8_tile_rows = ByteProduct::kMostRows,
                                .pack_tile = pack_tile,
                                .pack_bf16_tile = pack_bf16_tile<Bf16Product>,
                                .quantize_tile = quantize_tile<ByteProduct>,
                                .quantization_rest = quantization_rest,
                                .multiply = multiply<Bf16Product, ByteProduct>,
                                .attend = attend,
                                .silu_multiply = silu_multiply,
                                .add = add,
                                .rms_norm = rms_norm,
                                .rotate = rotate};
  return &table;
}

// The table for these instructions. `amx` may only be asked for on a CPU that has it, together with
// dot products of int8: the ragged ends of a product are theirs.
const Kernels* kernels(DotProducts dots, bool amx) {
  using Widened = FloatProduct<WidenedBf16Dot>;
  switch (dots) {
    case DotProducts::kNone:
      return kernels_with<Widened, Int8Product<WidenedByteDot>>();
    case DotProducts::kInt8:
      return amx ? kernels_with<Widened, TileByteProduct>()
                 : kernels_with<Widened, Int8Product<OneByteDot>>();
    case DotProducts::kInt8AndBf16:
      break;
  }
  return amx ? kernels_with<TileBf16Product, TileByteProduct>()
             : kernels_with<FloatProduct<PairBf16Dot>, Int8Product<OneByteDot>>();
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

#if HWY_ARCH_X86
// Measured: rounding activations for products of bf16 pairs took prefill of SmolLM2 from 1,045 to
// 670 tokens/s on an Intel CPU with AVX512-BF16 and without AMX, and made it up to twice as fast on
// AMD's (docs/benchmarks.md).
bool bf16_pairs_pay() { return !__builtin_cpu_is("intel"); }
#endif

// The dot products that the CPU has in this target and gains by, with or without AMX. Highway
// chooses among its own targets and does not ask for these extensions, so that they are asked for
// here: bits of CPUID leaf 7 as documented by Intel (Software Developer's Manual, volume 2A,
// CPUID), those of ARM by Linux ("ARM64 ELF hwcaps").
DotProducts dot_products_of_cpu(int64_t target, [[maybe_unused]] bool amx) {
#if HWY_ARCH_X86
  constexpr unsigned kAvx512Vnni = 1u << 11, kAvxVnni = 1u << 4, kAvx512Bf16 = 1u << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool avx512_vnni =
      target == HWY_AVX3 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & kAvx512Vnni) != 0;
  const unsigned more = __get_cpuid_count(7, 1, &a, &b, &c, &d) ? a : 0;
  if (avx512_vnni) {
    return (more & kAvx512Bf16) != 0 && (amx || bf16_pairs_pay()) ? DotProducts::kInt8AndBf16
                                                                  : DotProducts::kInt8;
  }
  if (target == HWY_AVX2 && (more & kAvxVnni) != 0) return DotProducts::kInt8;
#elif HWY_ARCH_ARM_A64
  if (target == HWY_NEON && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
    return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? DotProducts::kInt8AndBf16
                                                     : DotProducts::kInt8;
  }
#endif
  static_cast<void>(target);
  return DotProducts::kNone;
}

// Whether AMX can be used: the CPU and the system allow it, and a small product gives the same bits
// with it as without. The comparison is made once, before anything else uses the tiles.
bool amx_works(int64_t target) {
#if HWY_ARCH_X86_64
  if (target != HWY_AVX3) return false;
  static const bool works =
      amx_granted() && multiply_alike(*HWY_DYNAMIC_DISPATCH(kernels)(DotProducts::kInt8, false),
                                      *HWY_DYNAMIC_DISPATCH(kernels)(DotProducts::kInt8, true));
  return works;
#else
  static_cast<void>(target);
  return false;
#endif
}

}  // namespace

KernelChoice default_choice() {
  const KernelChoice rounded = {.most_dot_products = DotProducts::kInt8AndBf16};
  return best_kernels(rounded).amx ? rounded : KernelChoice();
}

const Kernels& best_kernels(const KernelChoice& choice) {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());  // a test may have changed them
  const int64_t target = HWY_DYNAMIC_DISPATCH(target)();
  const bool may_use_amx =
      choice.amx && choice.most_dot_products != DotProducts::kNone && amx_works(target);
  const DotProducts dots =
      std::min(dot_products_of_cpu(target, may_use_amx), choice.most_dot_products);
  const bool amx = may_use_amx && dots != DotProducts::kNone;
  return *HWY_DYNAMIC_DISPATCH(kernels)(dots, amx);
}

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
