// This test checks where each weight lies in a packed matrix (the order that packed_matrix.h
// describes).

#include "cpu/packed_matrix.h"

#include <gtest/gtest.h>

#include "ops/low_bit.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::cpu {
namespace {

// w[n][k] = 1 + n * 100 + k. Only n = 0 is exact in bf16, so the bf16 test sets the bits directly.
constexpr int64_t kN = 70, kK = 67;

const uint32_t* word_panel(const PackedMatrix& packed, int64_t i) { return packed.panel(i); }

TEST(PackedMatrix, Fp32PanelsHoldColumnsInOrderAndZeros) {
  std::vector<float> values;
  for (int64_t n = 0; n < kN; ++n) {
    for (int64_t k = 0; k < kK; ++k) values.push_back(static_cast<float>(1 + n * 100 + k));
  }
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const OwnedTensor w_t(dtype, {kN, kK}, values);
    const PackedMatrix packed(w_t.view());
    EXPECT_EQ(packed.type(), WeightType::kFp32);
    EXPECT_EQ(packed.panels(), 3);
    EXPECT_EQ(packed.size_bytes(), 3 * 32 * kK * 4);
    for (int64_t n = 0; n < 96; ++n) {
      for (int64_t k = 0; k < kK; ++k) {
        const float expected = n < kN ? static_cast<float>(1 + n * 100 + k) : 0.0f;
        ASSERT_EQ(reinterpret_cast<const float*>(packed.panel(n / 32))[k * 32 + n % 32], expected)
            << n << ", " << k;
      }
    }
  }
}

TEST(PackedMatrix, Bf16WordsHoldTwoRowsAndZeros) {
  std::vector<uint16_t> bits;
  for (int64_t n = 0; n < kN; ++n) {
    for (int64_t k = 0; k < kK; ++k) bits.push_back(static_cast<uint16_t>(1 + n * 100 + k));
  }
  const TensorView w_t = {DType::kBF16, {kN, kK}, reinterpret_cast<const std::byte*>(bits.data())};
  const PackedMatrix packed(w_t);
  EXPECT_EQ(packed.type(), WeightType::kBf16);
  constexpr int64_t kPadded = (kK + 31) / 32 * 32;
  EXPECT_EQ(packed.size_bytes(), 3 * 32 * kPadded * 2);
  for (int64_t n = 0; n < 96; ++n) {
    for (int64_t k = 0; k < kPadded; ++k) {
      const uint32_t word = word_panel(packed, n / 32)[k / 2 * 32 + n % 32];
      const uint32_t found = k % 2 == 0 ? word & 0xFFFF : word >> 16;
      ASSERT_EQ(found, n < kN && k < kK ? 1 + n * 100 + k : 0) << n << ", " << k;
    }
  }
}

TEST(PackedMatrix, Int8GroupsHoldScalesThenWordsOfFourRows) {
  constexpr int64_t kLong = 131;  // a group of 128 and one of 3
  ops::QuantizedWeight w = {kN, kLong, {}, {}};
  for (int64_t i = 0; i < kN * kLong; ++i) w.values.push_back(static_cast<int8_t>(i % 255 - 127));
  for (int64_t i = 0; i < kN * 2; ++i) w.scales.push_back({static_cast<uint16_t>(i + 1)});
  const PackedMatrix packed(w.view());
  EXPECT_EQ(packed.type(), WeightType::kInt8);
  EXPECT_EQ(packed.panel_words(), (16 + 32 * 32) + (16 + 1 * 32));
  EXPECT_EQ(packed.size_bytes(), 3 * packed.panel_words() * 4);
  for (int64_t n = 0; n < kN; ++n) {
    for (int64_t k = 0; k < kLong; ++k) {
      const uint32_t* const group = word_panel(packed, n / 32) + k / 128 * (16 + 32 * 32);
      const uint32_t scales = group[n % 16];
      ASSERT_EQ(n % 32 < 16 ? scales & 0xFFFF : scales >> 16, n * 2 + k / 128 + 1)
          << n << ", " << k;
      const uint32_t word = group[16 + k % 128 / 4 * 32 + n % 32];
      const auto byte = static_cast<int64_t>(word >> (k % 4 * 8) & 0xFF);
      ASSERT_EQ(byte - 128, w.values[static_cast<size_t>(n * kLong + k)]) << n << ", " << k;
    }
  }
}

// Codes of 4 and 6 bits lie where the comment of packed_matrix.h describes them.
TEST(PackedMatrix, GroupsOfFewBitsHoldScalesMultipliersAndLines) {
  constexpr int64_t kLong = 131;
  for (const LowBitFormat& format : {LowBitFormat{4, 16}, LowBitFormat{4, 32}, LowBitFormat{6}}) {
    ops::Codes codes = {format, kN, kLong, {}, {}, {}};
    const bool four = format.bits == 4;
    for (int64_t i = 0; i < kN * kLong; ++i) {
      codes.q.push_back(static_cast<uint8_t>(four ? i % 16 : 1 + i % 63));
    }
    const int64_t per_row = ops::groups_of_row(format, kLong);
    for (int64_t i = 0; i < kN * per_row; ++i) codes.groups.push_back(static_cast<uint8_t>(i));
    for (int64_t i = 0; i < kN * 2; ++i) codes.scales.push_back({static_cast<uint16_t>(i + 1)});
    const ops::QuantizedWeight weight = ops::pack_codes(codes);
    const PackedMatrix packed(weight.view());
    EXPECT_EQ(packed.type(), four ? WeightType::kInt4 : WeightType::kInt6);
    const int64_t head = 16 + (four ? 128 / format.group * 8 : 0), unit = four ? 32 : 48;
    EXPECT_EQ(packed.panel_words(), (head + 16 * unit) + (head + 1 * unit));
    for (int64_t n = 0; n < kN; ++n) {
      const bool second = n % 32 >= 16;
      for (int64_t k = 0; k < kLong; ++k) {
        const uint32_t* const group = word_panel(packed, n / 32) + k / 128 * (head + 16 * unit);
        const uint32_t scales = group[n % 16];
        ASSERT_EQ(second ? scales >> 16 : scales & 0xFFFF, n * 2 + k / 128 + 1);
        const auto* const bytes = reinterpret_cast<const uint8_t*>(group);
        const int64_t in_group = k % 128, in_unit = k % 8;
        if (four) {
          ASSERT_EQ(bytes[64 + in_group / format.group * 32 + n % 16 * 2 + (second ? 1 : 0)],
                    codes.groups[static_cast<size_t>(n * per_row + k / format.group)]);
        }
        const uint8_t* const lines = bytes + (head + in_group / 8 * unit) * 4;
        const uint8_t* const byte = lines + n % 16 * 4 + k % 4;
        int code = byte[in_unit / 4 * 64] >> (second ? 4 : 0) & 15;
        if (!four) code |= (byte[128] >> (in_unit / 4 * 4 + (second ? 2 : 0)) & 3) << 4;
        ASSERT_EQ(code, codes.q[static_cast<size_t>(n * kLong + k)]) << n << ", " << k;
      }
    }
  }
}

TEST(PackedMatrix, EmptyByDefault) { EXPECT_TRUE(PackedMatrix().empty()); }

}  // namespace
}  // namespace neuronmm::cpu
