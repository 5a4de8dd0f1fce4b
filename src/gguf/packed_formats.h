#pragma once
// Chooses in which formats of ours the tensors of a GGUF file are packed. mounted_gguf.cc is the
// caller. Kernels of our formats are faster than those that expand GGUF's blocks as codes
// (coded_blocks.h), which backends use for exact weights only.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/low_bit_format.h"
#include "gguf/gguf_types.h"

namespace neuronmm::gguf {

// A matrix of the file that a backend packs.
struct PackedTensor {
  const io::GgufTypeInfo* type;
  int64_t rows = 0, columns = 0;
};

// Returns how many bytes a matrix has in a format. Its bits may also be 16 or 32.
int64_t packed_bytes(const PackedTensor& tensor, const LowBitFormat& format);

// Returns a format for each tensor. F32 becomes fp32, F16 and BF16 become bf16. Blocks become 8
// bits, which loses least, as long as all tensors together take at most 1.1 times `file_bytes`.
// Otherwise those with the fewest bits in the file become 6 bits, and then 4, until that is true.
std::vector<LowBitFormat> packed_formats(std::span<const PackedTensor> tensors, int64_t file_bytes);

// Returns a sentence about tensors that are converted, with the memory of all: "Q4_K and Q6_K
// become 8 bits; the packed weights take 502 MB (the file has 491 MB)". Empty if none is.
std::string conversion_text(std::span<const PackedTensor> tensors,
                            std::span<const LowBitFormat> formats, int64_t file_bytes);

}  // namespace neuronmm::gguf
