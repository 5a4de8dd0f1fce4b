#include "gguf_out/block_encoder.h"

#include <array>
#include <cstring>

#include "base/float16.h"
#include "base/result.h"
#include "gguf_out/block_fit.h"

namespace neuronmm::gguf_out {
namespace {

// In the order of BlockType. Numbers and sizes are llama.cpp's (documented in ggml/include/ggml.h).
constexpr std::array<BlockTypeInfo, 12> kTypes = {{{"F32", 0, 1, 4},
                                                   {"F16", 1, 1, 2},
                                                   {"BF16", 30, 1, 2},
                                                   {"Q4_0", 2, 32, 18},
                                                   {"Q4_1", 3, 32, 20},
                                                   {"Q5_0", 6, 32, 22},
                                                   {"Q5_1", 7, 32, 24},
                                                   {"Q8_0", 8, 32, 34},
                                                   {"Q4_K", 12, 256, 144},
                                                   {"Q5_K", 13, 256, 176},
                                                   {"Q6_K", 14, 256, 210},
                                                   {"IQ4_NL", 20, 32, 18}}};

void encode_halves(BlockType type, const float* values, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = type == BlockType::kF16 ? f16::from_float(f16_value(values[i])).bits
                                                  : bf16::from_float(values[i]).bits;
    std::memcpy(out + 2 * i, &bits, sizeof(bits));
  }
}

}  // namespace

const BlockTypeInfo& info(BlockType type) { return kTypes[static_cast<size_t>(type)]; }

bool fits_row(BlockType type, int64_t columns) { return columns % info(type).block_elements == 0; }

int64_t encoded_bytes(BlockType type, int64_t count) {
  NMM_CHECK(fits_row(type, count));
  return count / info(type).block_elements * info(type).block_bytes;
}

void encode_row(BlockType type, const float* values, const float* importance, int64_t count,
                std::byte* out) {
  NMM_CHECK(fits_row(type, count));
  if (type == BlockType::kF32) {
    std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  if (type == BlockType::kF16 || type == BlockType::kBf16) {
    encode_halves(type, values, count, out);
    return;
  }
  static constexpr std::array<float, kMostWeights> kAlike = [] {
    std::array<float, kMostWeights> ones = {};
    ones.fill(1);
    return ones;
  }();
  for (int64_t i = 0; i < count; i += info(type).block_elements, out += info(type).block_bytes) {
    pack(type, fit_block(type, values + i, importance ? importance + i : kAlike.data()), out);
  }
}

}  // namespace neuronmm::gguf_out
