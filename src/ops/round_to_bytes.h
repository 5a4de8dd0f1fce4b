#pragma once
// Rounds fp32 values to bytes and a scale, which is the format of 8 bits (ops/low_bit.h).
// quantize() calls it for whole models, and loading a GGUF file does so before its first token, so
// it has SIMD kernels.

#include <cstdint>

#include "base/float16.h"

namespace neuronmm::ops {

// Rounds `count` values, at most kQuantGroup, that share a scale. The scale is max |value| / 127,
// rounded to bf16, and each byte is the multiple of the scale that is nearest to its value, ties to
// even. If a value is NaN or infinite, the scale is NaN and all bytes are 0. They are also 0 if the
// scale is too small for bf16. The results are those of the same steps in fp64.
bf16 round_to_bytes(const float* values, int64_t count, int8_t* bytes);

}  // namespace neuronmm::ops
