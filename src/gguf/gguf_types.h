#pragma once
// The tensor types of GGUF files, with the number of weights and bytes in a block. Sources:
// ggml-org/ggml, docs/gguf.md (the numbers of the types), and PyPI gguf 0.19, GGML_QUANT_SIZES (the
// sizes).

#include <cstdint>
#include <string>
#include <string_view>

namespace neuronmm::io {

// The types that we can convert, with the numbers that files contain.
enum class GgufTensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};

// A type of llama.cpp, whether we can convert it or not.
struct GgufTypeInfo {
  uint32_t number;
  std::string_view name;   // The name that llama.cpp uses: "Q4_K".
  int64_t block_elements;  // Consecutive weights of a row.
  int64_t block_bytes;
};

// Returns null if no type has this number.
const GgufTypeInfo* find_gguf_type(uint32_t number);
// Describes a number that find_gguf_type() does not know. Types that llama.cpp has dropped have a
// name.
std::string describe_unknown_gguf_type(uint32_t number);

}  // namespace neuronmm::io
