#include "gguf_out/block_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "base/result.h"

namespace neuronmm::gguf_out {
namespace {

constexpr float kLargestHalf = 65504;

std::byte byte(int value) { return static_cast<std::byte>(value); }

void put_half(float value, std::byte* out) {
  const uint16_t bits = f16::from_float(value).bits;
  std::memcpy(out, &bits, sizeof(bits));
}

// Writes the low four bits of `count` codes. The first half of the codes has the low halves of the
// bytes.
void put_nibbles(const uint8_t* code, int count, std::byte* out) {
  const int half = count / 2;
  for (int i = 0; i < half; ++i) out[i] = byte((code[i] & 15) | (code[half + i] & 15) << 4);
}

// Writes the fifth bits of 32 codes, lowest bit first.
void put_fifth_bits(const uint8_t* code, std::byte* out) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= uint32_t{code[i]} >> 4 << i;
  std::memcpy(out, &bits, sizeof(bits));
}

// Writes eight multipliers and eight minimums of six bits each (gguf/k_quants.cc unpacks them).
void put_scales(const BlockNumbers& block, std::byte* out) {
  for (size_t i = 0; i < 4; ++i) {
    const int s = block.multiplier[i], m = block.minimum[i];
    const int s4 = block.multiplier[i + 4], m4 = block.minimum[i + 4];
    out[i] = byte(s | s4 >> 4 << 6);
    out[i + 4] = byte(m | m4 >> 4 << 6);
    out[i + 8] = byte((s4 & 15) | (m4 & 15) << 4);
  }
}

void pack_q4_k(const BlockNumbers& block, std::byte* out) {
  put_half(block.d, out);
  put_half(block.dmin, out + 2);
  put_scales(block, out + 4);
  for (int run = 0; run < 4; ++run)
    put_nibbles(block.code.data() + 64 * run, 64, out + 16 + 32 * run);
}

void pack_q5_k(const BlockNumbers& block, std::byte* out) {
  put_half(block.d, out);
  put_half(block.dmin, out + 2);
  put_scales(block, out + 4);
  for (int i = 0; i < 32; ++i) {
    int bits = 0;
    for (int g = 0; g < 8; ++g) bits |= block.code[static_cast<size_t>(32 * g + i)] >> 4 << g;
    out[16 + i] = byte(bits);
  }
  for (int run = 0; run < 4; ++run)
    put_nibbles(block.code.data() + 64 * run, 64, out + 48 + 32 * run);
}

void pack_q6_k(const BlockNumbers& block, std::byte* out) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t* const code = block.code.data() + 128 * half;
    put_nibbles(code, 128, out + 64 * half);
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int k = 0; k < 4; ++k) bits |= code[32 * k + i] >> 4 << 2 * k;
      out[128 + 32 * half + i] = byte(bits);
    }
  }
  for (int g = 0; g < 16; ++g) out[192 + g] = byte(block.multiplier[static_cast<size_t>(g)] & 255);
  put_half(block.d, out + 208);
}

// Packs the types of 32 weights.
void pack_simple(BlockType type, const BlockNumbers& block, std::byte* out) {
  const BlockShape& shape = shape_of(type);
  put_half(block.d, out);
  out += 2;
  if (shape.has_min) {
    put_half(-block.dmin, out);
    out += 2;
  }
  if (shape.codes == 256) {
    for (int i = 0; i < 32; ++i) out[i] = byte((block.code[static_cast<size_t>(i)] - 128) & 255);
    return;
  }
  if (shape.codes == 32) {
    put_fifth_bits(block.code.data(), out);
    out += 4;
  }
  put_nibbles(block.code.data(), 32, out);
}

}  // namespace

int BlockShape::lowest_level() const { return has_table ? kLevels.front() : 0; }
int BlockShape::highest_level() const { return has_table ? kLevels.back() : codes - 1; }

const BlockShape& shape_of(BlockType type) {
  static constexpr BlockShape kQ4_0 = {32, 32, 16, 8, false, 1, 1, false};
  static constexpr BlockShape kQ4_1 = {32, 32, 16, 0, true, 1, 1, false};
  static constexpr BlockShape kQ5_0 = {32, 32, 32, 16, false, 1, 1, false};
  static constexpr BlockShape kQ5_1 = {32, 32, 32, 0, true, 1, 1, false};
  static constexpr BlockShape kQ8_0 = {32, 32, 256, 128, false, 1, 1, false};
  static constexpr BlockShape kIq4Nl = {32, 32, 16, 0, false, 1, 1, true};
  static constexpr BlockShape kQ4_K = {256, 32, 16, 0, true, 0, 63, false};
  static constexpr BlockShape kQ5_K = {256, 32, 32, 0, true, 0, 63, false};
  static constexpr BlockShape kQ6_K = {256, 16, 64, 32, false, -128, 127, false};
  switch (type) {
    case BlockType::kQ4_0:
      return kQ4_0;
    case BlockType::kQ4_1:
      return kQ4_1;
    case BlockType::kQ5_0:
      return kQ5_0;
    case BlockType::kQ5_1:
      return kQ5_1;
    case BlockType::kQ8_0:
      return kQ8_0;
    case BlockType::kIq4Nl:
      return kIq4Nl;
    case BlockType::kQ4_K:
      return kQ4_K;
    case BlockType::kQ5_K:
      return kQ5_K;
    case BlockType::kQ6_K:
      return kQ6_K;
    case BlockType::kF32:
    case BlockType::kF16:
    case BlockType::kBf16:
      break;
  }
  NMM_CHECK(false);
  return kQ8_0;
}

int nearest_table_code(float level) {
  // All midpoints of neighbouring levels are multiples of a half, so the halves below a number
  // decide.
  static const auto kCodes = [] {
    std::array<uint8_t, 2 * (127 + 113) + 1> codes = {};
    int code = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      const int twice = static_cast<int>(i) - 2 * 127;
      while (code < 15 &&
             twice >= kLevels[static_cast<size_t>(code)] + kLevels[static_cast<size_t>(code) + 1]) {
        ++code;
      }
      codes[i] = static_cast<uint8_t>(code);
    }
    return codes;
  }();
  const float clamped = std::min(std::max(-127.0F, level), 113.0F);  // NaN becomes -127
  return kCodes[static_cast<size_t>(static_cast<int>(std::floor(2 * clamped)) + 2 * 127)];
}

void pack(BlockType type, const BlockNumbers& block, std::byte* out) {
  if (type == BlockType::kQ4_K) {
    pack_q4_k(block, out);
  } else if (type == BlockType::kQ5_K) {
    pack_q5_k(block, out);
  } else if (type == BlockType::kQ6_K) {
    pack_q6_k(block, out);
  } else {
    pack_simple(type, block, out);
  }
}

float f16_value(float value) {
  if (std::isnan(value)) return 0.0F;
  return f16::from_float(std::clamp(value, -kLargestHalf, kLargestHalf)).to_float();
}

}  // namespace neuronmm::gguf_out
