#pragma once
// Rounds rows of weights to the types of GGUF tensors that neuronmm can write. llama.cpp calls them
// block types: a few dozen or 256 weights of a row share scales. gguf/dequantize.h reads the
// results.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace neuronmm::gguf_out {

// The types that can be written.
enum class BlockType {
  kF32,
  kF16,
  kBf16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIq4Nl
};

struct BlockTypeInfo {
  std::string_view name;   // llama.cpp's name: "Q4_K"
  int number;              // the type's number in GGUF files
  int64_t block_elements;  // consecutive weights of a row
  int64_t block_bytes;
};

const BlockTypeInfo& info(BlockType type);
// Returns whether a row of `columns` weights is whole blocks of the type.
bool fits_row(BlockType type, int64_t columns);
// Returns the bytes of `count` weights, which must be whole blocks.
int64_t encoded_bytes(BlockType type, int64_t count);

// Rounds `count` values of one row, whole blocks of finite numbers, to nearest. The scales are
// those with the smallest squared error among many tried. `importance` [count] weights the squared
// errors; its numbers must not be negative. Null weights them alike. Scales beyond the range of f16
// become the largest finite f16.
void encode_row(BlockType type, const float* values, const float* importance, int64_t count,
                std::byte* out);

}  // namespace neuronmm::gguf_out
