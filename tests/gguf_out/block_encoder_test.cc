// Tests the encoder of block types against the dequantizer of gguf/dequantize.h, whose results are
// those of PyPI's `gguf`.

#include "gguf_out/block_encoder.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "gguf/dequantize.h"
#include "gguf_out/block_fit.h"

namespace neuronmm::gguf_out {
namespace {

constexpr BlockType kRounded[] = {BlockType::kQ4_0, BlockType::kQ4_1, BlockType::kQ5_0,
                                  BlockType::kQ5_1, BlockType::kQ8_0, BlockType::kQ4_K,
                                  BlockType::kQ5_K, BlockType::kQ6_K, BlockType::kIq4Nl};

std::vector<float> decoded(BlockType type, const std::vector<std::byte>& bytes, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const auto* const known = io::find_gguf_type(static_cast<uint32_t>(info(type).number));
  gguf::dequantize(*known, bytes.data(), count, values.data());
  return values;
}

std::vector<float> round_trip(BlockType type, const std::vector<float>& values,
                              const float* importance = nullptr) {
  const int64_t count = std::ssize(values);
  std::vector<std::byte> bytes(static_cast<size_t>(encoded_bytes(type, count)));
  encode_row(type, values.data(), importance, count, bytes.data());
  return decoded(type, bytes, count);
}

double squared_error(const std::vector<float>& values, const std::vector<float>& rounded,
                     const float* importance = nullptr) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = double{values[i]} - double{rounded[i]};
    sum += (importance != nullptr ? importance[i] : 1.0) * error * error;
  }
  return sum;
}

std::vector<float> normal_values(int count, float size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// Numbers of any size that the type can hold, with every code.
BlockNumbers random_numbers(const BlockShape& shape, std::mt19937& random) {
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  BlockNumbers block;
  block.d = f16_value(static_cast<float>(below(2001) - 1000) * 1e-5F);
  block.dmin = shape.has_min ? f16_value(static_cast<float>(below(2001) - 1000) * 1e-5F) : 0;
  for (size_t g = 0; g < static_cast<size_t>(shape.groups()); ++g) {
    const int range = shape.highest_multiplier - shape.lowest_multiplier + 1;
    block.multiplier[g] = static_cast<int16_t>(shape.lowest_multiplier + below(range));
    if (shape.has_min) block.minimum[g] = static_cast<int16_t>(shape.has_groups() ? below(64) : 1);
  }
  for (size_t i = 0; i < static_cast<size_t>(shape.weights); ++i)
    block.code[i] = static_cast<uint8_t>(below(shape.codes));
  return block;
}

TEST(BlockEncoder, NumbersAndSizesAreThoseOfTheReader) {
  for (int i = 0; i <= static_cast<int>(BlockType::kIq4Nl); ++i) {
    const auto type = static_cast<BlockType>(i);
    const auto* const known = io::find_gguf_type(static_cast<uint32_t>(info(type).number));
    ASSERT_NE(known, nullptr);
    EXPECT_EQ(known->name, info(type).name);
    EXPECT_EQ(known->block_elements, info(type).block_elements);
    EXPECT_EQ(known->block_bytes, info(type).block_bytes);
  }
}

TEST(BlockEncoder, PackedBlocksHaveTheValuesOfTheirNumbers) {
  std::mt19937 random(1);
  for (const BlockType type : kRounded) {
    const BlockShape& shape = shape_of(type);
    for (int trial = 0; trial < 200; ++trial) {
      const BlockNumbers block = random_numbers(shape, random);
      std::vector<std::byte> bytes(static_cast<size_t>(info(type).block_bytes));
      pack(type, block, bytes.data());
      const std::vector<float> values = decoded(type, bytes, shape.weights);
      for (int i = 0; i < shape.weights; ++i) {
        const auto at = static_cast<size_t>(i);
        const int g = i / shape.group;
        const int level = shape.has_table ? kLevels[block.code[at]] : block.code[at];
        // Both products are exact in fp32, so only the difference is rounded.
        const float product = block.step(g) * static_cast<float>(level - shape.zero);
        const float minimum =
            block.dmin * static_cast<float>(block.minimum[static_cast<size_t>(g)]);
        ASSERT_EQ(values[at], product - minimum) << info(type).name << " weight " << i;
      }
    }
  }
}

TEST(BlockEncoder, ValuesOnTheGridStay) {
  std::mt19937 random(2);
  for (const BlockType type : kRounded) {
    const BlockShape& shape = shape_of(type);
    for (int trial = 0; trial < 50; ++trial) {
      BlockNumbers block = random_numbers(shape, random);
      // The fit finds scales from the largest values, so every group has its whole range.
      block.d = std::abs(block.d) + f16_value(0.001F);
      block.dmin = std::abs(block.dmin);
      for (int g = 0; g < shape.groups(); ++g) {
        block.code[static_cast<size_t>(g * shape.group)] = 0;
        block.code[static_cast<size_t>(g * shape.group + 1)] =
            static_cast<uint8_t>(shape.codes - 1);
      }
      std::vector<std::byte> bytes(static_cast<size_t>(info(type).block_bytes));
      pack(type, block, bytes.data());
      const std::vector<float> values = decoded(type, bytes, shape.weights);
      double size = 0;
      for (const float value : values) size += double{value} * value;
      // Types with groups cannot find the same integers again in all cases.
      const double share = shape.has_groups() ? 2e-3 : 1e-7;
      EXPECT_LE(squared_error(values, round_trip(type, values)), share * size) << info(type).name;
    }
  }
}

// Rounds with the step that covers the largest value, as llama.cpp does without importance.
std::vector<float> covered(BlockType type, const std::vector<float>& values) {
  const BlockShape& shape = shape_of(type);
  std::vector<float> rounded;
  for (size_t first = 0; first < values.size(); first += static_cast<size_t>(shape.weights)) {
    BlockNumbers block;
    const float* const x = values.data() + first;
    const auto [low, high] = std::minmax_element(x, x + shape.weights);
    block.multiplier[0] = block.minimum[0] = 1;
    if (shape.has_min) {
      block.d = f16_value((*high - *low) / static_cast<float>(shape.codes - 1));
      block.dmin = f16_value(-*low);
    } else {
      const float extreme = -*low > *high ? *low : *high;
      block.d = f16_value(extreme / static_cast<float>(shape.lowest_level() - shape.zero));
    }
    round_to_scales(shape, x, block);
    std::vector<std::byte> bytes(static_cast<size_t>(info(type).block_bytes));
    pack(type, block, bytes.data());
    const std::vector<float> part = decoded(type, bytes, shape.weights);
    rounded.insert(rounded.end(), part.begin(), part.end());
  }
  return rounded;
}

TEST(BlockEncoder, LosesLessThanScalesThatCoverTheLargestValue) {
  for (const BlockType type : kRounded) {
    if (shape_of(type).has_groups()) continue;
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::vector<float> values = normal_values(32, 0.02F, seed);
      EXPECT_LE(squared_error(values, round_trip(type, values)),
                squared_error(values, covered(type, values)) * (1 + 1e-5))
          << info(type).name << " seed " << seed;
    }
  }
}

// The root of the mean squared error of a Gaussian of deviation 1 is a known property of a format.
// Rounding with 16 levels that cover ±3.2 (the range of 256 values) costs .123.
TEST(BlockEncoder, GroupsLoseLessThanOneScale) {
  const std::vector<float> values = normal_values(256 * 64, 1.0F, 7);
  const double q4_k = squared_error(values, round_trip(BlockType::kQ4_K, values));
  const double q5_k = squared_error(values, round_trip(BlockType::kQ5_K, values));
  const double q6_k = squared_error(values, round_trip(BlockType::kQ6_K, values));
  EXPECT_LT(q4_k, squared_error(values, round_trip(BlockType::kQ4_0, values)));
  EXPECT_LT(q5_k, squared_error(values, round_trip(BlockType::kQ5_0, values)));
  EXPECT_LT(q6_k, 0.3 * q5_k);
}

TEST(BlockEncoder, ImportanceDecidesWhichErrorsAreSmall) {
  for (const BlockType type : kRounded) {
    const std::vector<float> values = normal_values(1024, 0.02F, 3);
    std::vector<float> importance = normal_values(1024, 1, 4);
    for (float& weight : importance) weight = weight * weight + 0.01F;
    const std::vector<float> weighted = round_trip(type, values, importance.data());
    const std::vector<float> plain = round_trip(type, values);
    EXPECT_LE(squared_error(values, weighted, importance.data()),
              squared_error(values, plain, importance.data()))
        << info(type).name;
  }
}

TEST(BlockEncoder, ZerosStayZeros) {
  for (const BlockType type : kRounded) {
    const std::vector<float> zeros(512, 0.0F);
    EXPECT_EQ(round_trip(type, zeros), zeros) << info(type).name;
    // The first half of the blocks is zero, and importance may be zero.
    const std::vector<float> values = normal_values(512, 1, 5);
    const std::vector<float> rounded = round_trip(type, values, zeros.data());
    for (const float value : rounded) EXPECT_TRUE(std::isfinite(value)) << info(type).name;
  }
}

TEST(BlockEncoder, ScalesBeyondF16AreTheLargestFiniteOnes) {
  for (const BlockType type : kRounded) {
    for (const float size : {1e7F, 1e20F, 1e38F, 1e-7F, 1e-12F, 1e-40F}) {
      std::vector<float> values = normal_values(256, 1, 6);
      for (float& value : values) value = std::clamp(value, -3.0F, 3.0F) * size;
      for (const float value : round_trip(type, values)) {
        ASSERT_TRUE(std::isfinite(value)) << info(type).name << " " << size;
        ASSERT_LE(std::abs(value), std::max(4 * size, 1e-4F)) << info(type).name << " " << size;
      }
    }
  }
}

TEST(BlockEncoder, FloatsAreNarrowed) {
  const std::vector<float> values = {1, -2.5F, 1e-9F, 0.1F, 1e9F};
  EXPECT_EQ(round_trip(BlockType::kF32, values), values);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(round_trip(BlockType::kBf16, values)[i], bf16::from_float(values[i]).to_float());
    EXPECT_EQ(round_trip(BlockType::kF16, values)[i], f16_value(values[i]));
  }
}

TEST(BlockEncoder, TheNearestLevelOfTheTableIsFound) {
  for (float level = -140; level <= 130; level += 0.125F) {
    const int chosen = nearest_table_code(level);
    for (const int other : kLevels) {
      EXPECT_LE(std::abs(level - static_cast<float>(kLevels[static_cast<size_t>(chosen)])),
                std::abs(level - static_cast<float>(other)))
          << level;
    }
  }
}

}  // namespace
}  // namespace neuronmm::gguf_out
