// Compiles the kernels of fp32 and bf16 weights, of attention and of element-wise operations for
// every instruction set.

#include "cpu/kernel_parts.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/float_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_bf16_matmul-inl.h"
#include "cpu/attention-inl.h"
#include "cpu/matmul-inl.h"
#include "cpu/pack_rows-inl.h"
#include "cpu/vector_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
using TileBf16Product = AmxBf16Product<AmxTiles, InstructionBf16Pairs>;
using TileAttention = AmxAttention<TileBf16Product>;
#else
using TileBf16Product = FloatProduct<PairBf16Dot>;
using TileAttention = PairAttention;
#endif

template <class Bf16Product>
void multiply_floats(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                     const float* bias, MutableMatrixView y) {
  if (w.type() == WeightType::kFp32) {
    multiply_part<FloatProduct<Fp32Dot>>(a, w, part, bias, y);
  } else if constexpr (Bf16Product::kInPieces) {
    multiply_in_pieces<Bf16Product>(a, w, part, bias, y);
  } else {
    multiply_part<Bf16Product>(a, w, part, bias, y);
  }
}

template <class Bf16Product, class Bf16Attention>
void set_bf16(Kernels& kernels) {
  kernels.bf16_tile_rows = Bf16Product::kMostRows;
  kernels.pack_bf16_tile = pack_bf16_tile<Bf16Product>;
  kernels.multiply_floats = multiply_floats<Bf16Product>;
  kernels.attend_bf16 = attend<Bf16Attention>;
  kernels.attend_int8 = attend<Bf16Attention, true>;
}

void set_floats(Kernels& kernels) {
  kernels.tile_rows = kTileRows;
  kernels.pack_tile = pack_tile;
  kernels.attend_fp32 = attend<FloatAttention<Fp32Dot>>;
  kernels.add_attention = add_attention;
  kernels.finish_attention = finish_attention;
  kernels.silu_multiply = silu_multiply;
  kernels.gelu_multiply = gelu_multiply;
  kernels.add = add;
  kernels.scale = scale;
  kernels.soft_cap = soft_cap;
  kernels.rms_norm = rms_norm;
  kernels.rotate = rotate;
  if (kernels.dot_products != DotProducts::kInt8AndBf16) {
    set_bf16<FloatProduct<WidenedBf16Dot>, FloatAttention<WidenedBf16Dot>>(kernels);
  } else if (kernels.amx) {
    set_bf16<TileBf16Product, TileAttention>(kernels);
  } else {
    set_bf16<FloatProduct<PairBf16Dot>, PairAttention>(kernels);
  }
}

int64_t target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {

HWY_EXPORT(set_floats);
HWY_EXPORT(target);

void set_float_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(set_floats)(kernels); }
int64_t chosen_target() { return HWY_DYNAMIC_DISPATCH(target)(); }

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
