// Rounds fp32 to pairs of bf16, for one instruction set (see kernels.h). Highway includes this file
// once per target.

#if defined(NEURONMM_CPU_BF16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_BF16_PAIRS_INL_H_
#undef NEURONMM_CPU_BF16_PAIRS_INL_H_
#else
#define NEURONMM_CPU_BF16_PAIRS_INL_H_
#endif

#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Returns bf16 bits, rounded to nearest even, in the high halves; NaN stays NaN. Adding 0x7FFF, and
// one more if the last kept bit is odd, carries into the kept bits exactly where rounding to
// nearest even rounds up.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<Floats>> round_to_bf16(Vector x) {
  const hn::RebindToUnsigned<Floats> words;
  const auto bits = hn::BitCast(words, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7FFFu)));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(x));
  return hn::IfThenElse(is_nan, hn::Set(words, 0x7FC00000u), rounded);
}

// Makes kLanes words of the kLanes floats of `low` and then those of `high`: word i holds floats 2
// i and 2 i + 1.
struct PortableBf16Pairs {
  static HWY_INLINE WordVector round(Vector low, Vector high) {
    const Words words;
#if HWY_TARGET == HWY_SCALAR
    const hn::RebindToUnsigned<Floats> bits;
    const auto upper = hn::And(round_to_bf16(high), hn::Set(bits, 0xFFFF0000u));
    return hn::BitCast(words, hn::Or(hn::ShiftRight<16>(round_to_bf16(low)), upper));
#else
    const hn::Repartition<uint16_t, Floats> halves;
    return hn::BitCast(words, hn::ConcatOdd(halves, hn::BitCast(halves, round_to_bf16(high)),
                                            hn::BitCast(halves, round_to_bf16(low))));
#endif
  }
};

#if HWY_TARGET == HWY_AVX3
// Rounds by one instruction, which takes denormals for zeros, as products of bf16 do. It is
// assembly because Highway does not ask the compiler for AVX512-BF16.
struct InstructionBf16Pairs {
  static HWY_INLINE WordVector round(Vector low, Vector high) {
    WordVector words;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words.raw) : "v"(low.raw), "v"(high.raw));
    return words;
  }
};
#else
using InstructionBf16Pairs = PortableBf16Pairs;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_BF16_PAIRS_INL_H_
