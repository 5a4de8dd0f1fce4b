#include "cpu/emulated_amx.h"

#include <string>

#include "cpu/current_kernels.h"
#include "cpu/emulated_tiles.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/emulated_amx.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_bf16_matmul-inl.h"
#include "cpu/amx_int8_matmul-inl.h"
#include "cpu/attention-inl.h"
#include "cpu/coded_matmul-inl.h"
#include "cpu/low_bit_matmul-inl.h"
#include "cpu/pack_rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

using EmulatedProduct = AmxInt8Product<EmulatedTiles, WidenedByteDot>;
using EmulatedBf16Product = AmxBf16Product<EmulatedTiles>;

void multiply_floats_emulated(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                              const float* bias, MutableMatrixView y) {
  if (w.type() == WeightType::kFp32) return current_kernels().multiply(a, w, part, bias, y);
  multiply_in_pieces<EmulatedBf16Product>(a, w, part, bias, y);
}

void multiply_int4_emulated(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                            const float* bias, MutableMatrixView y) {
  if (w.multiplier_rows() == 16) {
    multiply_low_bit<Int4Codes<16>, EmulatedProduct>(a, w, part, bias, y);
  } else {
    multiply_low_bit<Int4Codes<32>, EmulatedProduct>(a, w, part, bias, y);
  }
}

const Kernels* emulated() {
  static const std::string name = std::string(current_kernels().target) + "+emulated_amx";
  static const Kernels table = [] {
    Kernels kernels = current_kernels();
    kernels.target = name.c_str();
    kernels.dot_products = DotProducts::kInt8AndBf16;
    kernels.amx = true;
    kernels.bf16_tile_rows = EmulatedBf16Product::kMostRows;
    kernels.int8_tile_rows = EmulatedProduct::kMostRows;
    kernels.pack_bf16_tile = pack_bf16_tile<EmulatedBf16Product>;
    kernels.quantize_tile = quantize_tile<EmulatedProduct>;
    kernels.multiply_floats = multiply_floats_emulated;
    kernels.attend_bf16 = attend<AmxAttention<EmulatedBf16Product>>;
    kernels.attend_int8 = attend<AmxAttention<EmulatedBf16Product>, true>;
    kernels.multiply_coded = multiply_in_pieces<CodedTiles<EmulatedBf16Product>>;
    kernels.multiply_int8 = multiply_bytes<EmulatedProduct>;
    kernels.multiply_int6 = multiply_low_bit<Int6Codes, EmulatedProduct>;
    kernels.multiply_int4 = multiply_int4_emulated;
    return kernels;
  }();
  return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::cpu {
namespace {
HWY_EXPORT(emulated);
}  // namespace

const Kernels& emulated_amx() {
  current_kernels();  // chooses the target that is dispatched to
  return *HWY_DYNAMIC_DISPATCH(emulated)();
}

}  // namespace neuronmm::cpu
#endif  // HWY_ONCE
