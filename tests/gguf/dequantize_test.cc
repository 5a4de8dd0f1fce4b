// Compares dequantized random blocks with the bits that PyPI's gguf gives (make_golden_blocks.py).
// tests/slow/gguf_import.sh makes other blocks and names their file in NEURONMM_GOLDEN_BLOCKS.

#include "gguf/dequantize.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "places.h"

namespace neuronmm::gguf {
namespace {

std::vector<std::byte> bytes_of_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(Dequantize, EqualsTheReferenceBitForBit) {
  const char* const other = std::getenv("NEURONMM_GOLDEN_BLOCKS");
  std::ifstream file(other != nullptr ? other : source_dir() / "tests/gguf/golden_blocks.json");
  const auto golden = nlohmann::json::parse(file);
  int types = 0;
  for (uint32_t number = 0; number < 64; ++number) {
    const io::GgufTypeInfo* type = io::find_gguf_type(number);
    // PyPI's gguf does not read Q8_K.
    if (type == nullptr || !can_dequantize(*type) || type->name == "Q8_K") continue;
    ++types;
    const auto& entry = golden.at(std::string(type->name));
    const std::vector<std::byte> blocks = bytes_of_hex(entry["blocks"]);
    const std::vector<std::byte> expected = bytes_of_hex(entry["weights"]);
    std::vector<float> weights(expected.size() / sizeof(float));
    ASSERT_EQ(std::ssize(blocks) / type->block_bytes * type->block_elements, std::ssize(weights));
    dequantize(*type, blocks.data(), std::ssize(weights), weights.data());
    for (size_t i = 0; i < weights.size(); ++i) {
      float value;
      std::memcpy(&value, &expected[i * sizeof(float)], sizeof(float));
      ASSERT_EQ(std::bit_cast<uint32_t>(weights[i]), std::bit_cast<uint32_t>(value))
          << type->name << " weight " << i << ": " << weights[i] << ", expected " << value;
    }
  }
  EXPECT_EQ(types, static_cast<int>(golden.size()));
  EXPECT_EQ(types, 25);
}

TEST(Dequantize, BytesOfQ8KAreMultiplesOfTheScale) {
  std::vector<std::byte> block(292);
  const float scale = -0.375f;
  std::memcpy(block.data(), &scale, sizeof(scale));
  for (int i = 0; i < 256; ++i) block[static_cast<size_t>(4 + i)] = static_cast<std::byte>(i);
  std::vector<float> weights(256);
  dequantize(*io::find_gguf_type(15), block.data(), 256, weights.data());
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(weights[static_cast<size_t>(i)], scale * static_cast<float>(i < 128 ? i : i - 256));
}

TEST(Dequantize, OtherTypesAreNotSupported) {
  for (const uint32_t number : {9u, 24u, 28u, 40u, 41u})
    EXPECT_FALSE(can_dequantize(*io::find_gguf_type(number))) << number;
  EXPECT_EQ(dequantized_types(),
            "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K, "
            "IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, "
            "MXFP4");
}

}  // namespace
}  // namespace neuronmm::gguf
