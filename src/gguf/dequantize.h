#pragma once
// Converts the weights of GGUF's tensor types to fp32. The results have the same bits as those of
// PyPI's `gguf` 0.19 (gguf.quants.dequantize), whose layouts and order of fp32 operations this code
// follows. Q8_K, which that package does not read, follows llama.cpp (ggml/src/ggml-quants.c). The
// importer (weights.h) is the main user.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gguf/gguf_types.h"

namespace neuronmm::gguf {

// The values that the codes of IQ4_NL and IQ4_XS stand for (documented: kvalues_iq4nl in
// llama.cpp).
inline constexpr std::array<int8_t, 16> kIq4Levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

// Returns true if the type is supported.
bool can_dequantize(const io::GgufTypeInfo& type);
// Returns the names of the supported types: "F32, F16, BF16, Q8_0, ...".
std::string dequantized_types();

// Writes `count` weights to `out`. They must be whole blocks of a supported type. Scales that are
// infinite or NaN give such weights, which the caller has to find.
void dequantize(const io::GgufTypeInfo& type, const std::byte* blocks, int64_t count, float* out);

}  // namespace neuronmm::gguf
