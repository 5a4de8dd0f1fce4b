#pragma once
// The tensor types of GGUF files: how many weights a block holds in how many bytes.
// Source: ggml-org/ggml, docs/gguf.md (the numbers) and PyPI gguf 0.19, GGML_QUANT_SIZES (the
// sizes).

#include <cstdint>
#include <string>
#include <string_view>

namespace neuronmm::io {

// The numbers in the files.
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
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
};

struct GgufTypeInfo {
  uint32_t number;
  std::string_view name;   // as llama.cpp writes it: "Q4_K"
  int64_t block_elements;  // consecutive weights of a row
  int64_t block_bytes;
};

// nullptr: no type has this number today.
const GgufTypeInfo* find_gguf_type(uint32_t number);
// The name of a number that is in no file of today: types that llama.cpp has dropped have one.
std::string describe_unknown_gguf_type(uint32_t number);

}  // namespace neuronmm::io
