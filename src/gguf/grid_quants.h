#pragma once
// The types of GGUF whose blocks of 256 weights index vectors of a table: IQ1, IQ2 and IQ3. Each
// function computes the weights of one block; dequantize.cc is the caller.

#include <cstddef>

namespace neuronmm::gguf {

// The comments list the parts of a block in their order. Numbers in brackets are sizes in bytes; d
// is an fp16 value. "Signs" are one bit per weight that negates it.

// The block is d, then for every 32 weights 4 indices [4] and a number of 32 bits: 4 times 7 bits
// of signs, and 4 bits of scale. The eighth sign of 7 makes their number even.
void iq2_xxs(const std::byte* block, float* out);

// The block is d, then for every 8 weights 9 bits of index and 7 bits of signs [2], then scales of
// 4 bits for every 16 weights [8].
void iq2_xs(const std::byte* block, float* out);

// The block is d, low bits of 32 indices [32], signs [32], high 2 bits of the indices [8], scales
// of 4 bits for every 16 weights [8].
void iq2_s(const std::byte* block, float* out);

// The block is d, 64 indices of 4 weights [64], then for every 32 weights signs and scale as in
// IQ2_XXS [4].
void iq3_xxs(const std::byte* block, float* out);

// The block is d, low bits of 64 indices of 4 weights [64], their ninth bits [8], signs [32],
// scales of 4 bits for every 32 weights [4].
void iq3_s(const std::byte* block, float* out);

// The block is d, low bits of 32 indices [32], then for every 32 weights the high 3 bits of 4
// indices, 3 bits of scale and the sign of the shift [2].
void iq1_s(const std::byte* block, float* out);

// The block is low bits of 32 indices [32], for every index its high 3 bits and the sign of its
// shift [16], then 4 numbers [2 each] of four scales of 3 bits and 4 bits of d.
void iq1_m(const std::byte* block, float* out);

}  // namespace neuronmm::gguf
