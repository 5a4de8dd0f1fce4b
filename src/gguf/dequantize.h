#pragma once
// The weights of GGUF's tensor types as fp32, with the bits that PyPI's `gguf` 0.19 gives
// (gguf.quants.dequantize): the layouts and the order of the fp32 operations are its.

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/gguf_types.h"

namespace neuronmm::gguf {

bool can_dequantize(const io::GgufTypeInfo& type);
std::string dequantized_types();  // "F32, F16, BF16, Q8_0, ..."

// `count` weights, whole blocks of a type that can_dequantize. Scales that are infinite or no
// numbers give such weights, for the caller to find.
void dequantize(const io::GgufTypeInfo& type, const std::byte* blocks, int64_t count, float* out);

}  // namespace neuronmm::gguf
