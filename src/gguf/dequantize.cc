#include "gguf/dequantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/float16.h"
#include "base/result.h"
#include "gguf/k_quants.h"

namespace neuronmm::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read in place");

// The weights in a block of the simple types.
constexpr int kBlock = 32;
constexpr int kHalf = kBlock / 2;

// The values that the four bits of IQ4_NL and IQ4_XS stand for.
constexpr std::array<float, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

uint8_t at(const std::byte* bytes, int i) { return std::to_integer<uint8_t>(bytes[i]); }

// Returns four bits of weight i. The low four bits of 16 bytes hold the first half of a block, and
// the high four bits hold the second half.
int nibble(const std::byte* bytes, int i) {
  return i < kHalf ? at(bytes, i) & 0xF : at(bytes, i - kHalf) >> 4;
}

void f32(const std::byte* block, float* out) { std::memcpy(out, block, sizeof(float)); }
void f16_weight(const std::byte* block, float* out) { *out = half_at(block); }
void bf16_weight(const std::byte* block, float* out) {
  uint16_t bits;
  std::memcpy(&bits, block, sizeof(bits));
  *out = bf16{bits}.to_float();
}

void q8_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < kBlock; ++i)
    out[i] = static_cast<float>(static_cast<int8_t>(at(block + 2, i))) * d;
}

void q4_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(nibble(block + 2, i) - 8);
}

void q4_1(const std::byte* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(nibble(block + 4, i)) + m;
}

// Returns the fifth bit of weight i, which is bit i of 32 bits.
int fifth_bit(const std::byte* bytes, int i) { return (at(bytes, i / 8) >> (i % 8) & 1) << 4; }

void q5_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < kBlock; ++i)
    out[i] = d * static_cast<float>((nibble(block + 6, i) | fifth_bit(block + 2, i)) - 16);
}

void q5_1(const std::byte* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < kBlock; ++i)
    out[i] = d * static_cast<float>(nibble(block + 8, i) | fifth_bit(block + 4, i)) + m;
}

void iq4_nl(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < kBlock; ++i) out[i] = d * kNonLinear[nibble(block + 2, i)];
}

// A block of IQ4_XS has eight groups of 32 weights. Each group has a scale of six bits, four of
// them in scales_l and two in scales_h.
void iq4_xs(const std::byte* block, float* out) {
  const float d = half_at(block);
  const int high = at(block, 2) | at(block, 3) << 8;
  const std::byte* const low = block + 4;
  for (int group = 0; group < 8; ++group) {
    const int scale = (at(low, group / 2) >> (4 * (group % 2)) & 0xF) | (high >> (2 * group) & 3)
                                                                            << 4;
    const float dl = d * static_cast<float>(scale - 32);
    const std::byte* const bits = block + 8 + group * kHalf;
    for (int i = 0; i < kBlock; ++i) out[group * kBlock + i] = dl * kNonLinear[nibble(bits, i)];
  }
}

using Block = void (*)(const std::byte* block, float* out);

template <Block block_function>
void each_block(const io::GgufTypeInfo& type, const std::byte* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += type.block_elements, blocks += type.block_bytes)
    block_function(blocks, out + i);
}

struct Entry {
  io::GgufTensorType type;
  void (*dequantize)(const io::GgufTypeInfo& type, const std::byte* blocks, int64_t count,
                     float* out);
};
using Type = io::GgufTensorType;
constexpr std::array<Entry, 15> kEntries = {{{Type::kF32, each_block<f32>},
                                             {Type::kF16, each_block<f16_weight>},
                                             {Type::kBF16, each_block<bf16_weight>},
                                             {Type::kQ8_0, each_block<q8_0>},
                                             {Type::kQ4_0, each_block<q4_0>},
                                             {Type::kQ4_1, each_block<q4_1>},
                                             {Type::kQ5_0, each_block<q5_0>},
                                             {Type::kQ5_1, each_block<q5_1>},
                                             {Type::kQ2_K, each_block<q2_k>},
                                             {Type::kQ3_K, each_block<q3_k>},
                                             {Type::kQ4_K, each_block<q4_k>},
                                             {Type::kQ5_K, each_block<q5_k>},
                                             {Type::kQ6_K, each_block<q6_k>},
                                             {Type::kIQ4_NL, each_block<iq4_nl>},
                                             {Type::kIQ4_XS, each_block<iq4_xs>}}};

const Entry* find(const io::GgufTypeInfo& type) {
  const auto found = std::ranges::find(kEntries, static_cast<Type>(type.number), &Entry::type);
  return found == kEntries.end() ? nullptr : &*found;
}

}  // namespace

bool can_dequantize(const io::GgufTypeInfo& type) { return find(type) != nullptr; }

std::string dequantized_types() {
  std::string names;
  for (const Entry& entry : kEntries) {
    const io::GgufTypeInfo* type = io::find_gguf_type(static_cast<uint32_t>(entry.type));
    names += fmt::format("{}{}", names.empty() ? "" : ", ", type->name);
  }
  return names;
}

void dequantize(const io::GgufTypeInfo& type, const std::byte* blocks, int64_t count, float* out) {
  const Entry* const entry = find(type);
  NMM_CHECK(entry != nullptr && count % type.block_elements == 0);
  entry->dequantize(type, blocks, count, out);
}

}  // namespace neuronmm::gguf
