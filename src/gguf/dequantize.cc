#include "gguf/dequantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/float16.h"
#include "base/result.h"
#include "gguf/grid_quants.h"
#include "gguf/k_quants.h"
#include "gguf/ternary_quants.h"
#include "io/mxfp4.h"

namespace neuronmm::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read in place");

// The weights in a block of the simple types.
constexpr int kBlock = 32;
constexpr int kHalf = kBlock / 2;

constexpr std::array<float, 16> as_floats(const std::array<int8_t, 16>& table) {
  std::array<float, 16> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = table[i];
  return values;
}

// The values that the four bits of IQ4_NL, IQ4_XS and MXFP4 stand for.
constexpr std::array<float, 16> kIq4Values = as_floats(kIq4Levels);
constexpr std::array<float, 16> kMxfp4Doubled = as_floats(io::kE2M1Doubled);

// Calls write(i, four bits) for the weights of a block. The low four bits of 16 bytes hold the
// first half of the block, and the high four bits hold the second half. Two loops without a
// condition become vector instructions.
template <typename Write>
void each_nibble(const std::byte* bytes, const Write& write) {
  for (int i = 0; i < kHalf; ++i) write(i, byte_at(bytes, i) & 0xF);
  for (int i = 0; i < kHalf; ++i) write(kHalf + i, byte_at(bytes, i) >> 4);
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
    out[i] = static_cast<float>(static_cast<int8_t>(byte_at(block + 2, i))) * d;
}

void q4_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  each_nibble(block + 2, [=](int i, int q) { out[i] = d * static_cast<float>(q - 8); });
}

void q4_1(const std::byte* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  each_nibble(block + 4, [=](int i, int q) { out[i] = d * static_cast<float>(q) + m; });
}

// The fifth bits of 32 weights, whose bit i belongs to weight i, as bytes of 0 or 16. A table of
// the eight bytes for each byte lets the loops over weights become vector instructions.
constexpr std::array<std::array<uint8_t, 8>, 256> kFifthBits = [] {
  std::array<std::array<uint8_t, 8>, 256> table = {};
  for (size_t byte = 0; byte < table.size(); ++byte) {
    for (size_t i = 0; i < 8; ++i) table[byte][i] = static_cast<uint8_t>((byte >> i & 1) << 4);
  }
  return table;
}();
std::array<uint8_t, kBlock> fifth_bits(const std::byte* bits) {
  std::array<uint8_t, kBlock> bytes;
  for (int i = 0; i < kBlock / 8; ++i)
    std::memcpy(bytes.data() + 8 * i, kFifthBits[byte_at(bits, i)].data(), 8);
  return bytes;
}

void q5_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  const std::array<uint8_t, kBlock> fifth = fifth_bits(block + 2);
  each_nibble(block + 6, [&](int i, int low) {
    out[i] = d * static_cast<float>((low | fifth[static_cast<size_t>(i)]) - 16);
  });
}

void q5_1(const std::byte* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  const std::array<uint8_t, kBlock> fifth = fifth_bits(block + 4);
  each_nibble(block + 8, [&](int i, int low) {
    out[i] = d * static_cast<float>(low | fifth[static_cast<size_t>(i)]) + m;
  });
}

void iq4_nl(const std::byte* block, float* out) {
  const float d = half_at(block);
  each_nibble(block + 2, [=](int i, int q) { out[i] = d * kIq4Values[static_cast<size_t>(q)]; });
}

// A block of IQ4_XS has eight groups of 32 weights. Each group has a scale of six bits, four of
// them in scales_l and two in scales_h.
void iq4_xs(const std::byte* block, float* out) {
  const float d = half_at(block);
  const int high = byte_at(block, 2) | byte_at(block, 3) << 8;
  const std::byte* const low = block + 4;
  for (int group = 0; group < 8; ++group) {
    const int scale =
        (byte_at(low, group / 2) >> (4 * (group % 2)) & 0xF) | (high >> (2 * group) & 3) << 4;
    const float dl = d * static_cast<float>(scale - 32);
    float* const weights = out + group * kBlock;
    each_nibble(block + 8 + group * kHalf,
                [=](int i, int q) { weights[i] = dl * kIq4Values[static_cast<size_t>(q)]; });
  }
}

// A block of MXFP4 has one byte of scale, 2^(byte - 127), and halves the doubled values by halving
// the scale. The bytes 0 and 1 give fp32 numbers that are not normal.
void mxfp4(const std::byte* block, float* out) {
  const uint32_t exponent = byte_at(block, 0);
  const float half_scale =
      std::bit_cast<float>(exponent < 2 ? uint32_t{0x00200000} << exponent : (exponent - 1) << 23);
  each_nibble(block + 1,
              [=](int i, int q) { out[i] = half_scale * kMxfp4Doubled[static_cast<size_t>(q)]; });
}

// A block of Q8_K has d in fp32, 256 signed bytes, and sums of them that are not needed here.
void q8_k(const std::byte* block, float* out) {
  float d;
  std::memcpy(&d, block, sizeof(d));
  for (int i = 0; i < 256; ++i)
    out[i] = d * static_cast<float>(static_cast<int8_t>(byte_at(block + 4, i)));
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
constexpr std::array<Entry, 26> kEntries = {
    {{Type::kF32, each_block<f32>},          {Type::kF16, each_block<f16_weight>},
     {Type::kBF16, each_block<bf16_weight>}, {Type::kQ8_0, each_block<q8_0>},
     {Type::kQ4_0, each_block<q4_0>},        {Type::kQ4_1, each_block<q4_1>},
     {Type::kQ5_0, each_block<q5_0>},        {Type::kQ5_1, each_block<q5_1>},
     {Type::kQ2_K, each_block<q2_k>},        {Type::kQ3_K, each_block<q3_k>},
     {Type::kQ4_K, each_block<q4_k>},        {Type::kQ5_K, each_block<q5_k>},
     {Type::kQ6_K, each_block<q6_k>},        {Type::kQ8_K, each_block<q8_k>},
     {Type::kIQ1_S, each_block<iq1_s>},      {Type::kIQ1_M, each_block<iq1_m>},
     {Type::kIQ2_XXS, each_block<iq2_xxs>},  {Type::kIQ2_XS, each_block<iq2_xs>},
     {Type::kIQ2_S, each_block<iq2_s>},      {Type::kIQ3_XXS, each_block<iq3_xxs>},
     {Type::kIQ3_S, each_block<iq3_s>},      {Type::kIQ4_NL, each_block<iq4_nl>},
     {Type::kIQ4_XS, each_block<iq4_xs>},    {Type::kTQ1_0, each_block<tq1_0>},
     {Type::kTQ2_0, each_block<tq2_0>},      {Type::kMXFP4, each_block<mxfp4>}}};

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
