// This test compares GGUF blocks that are read as codes with the same blocks dequantized. The bits
// must be equal, also those of products in fp32. dequantize_test.cc compares dequantized blocks
// with the package `gguf` of PyPI.

#include "gguf/coded_blocks.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "cpu/packed_matrix.h"
#include "gguf/dequantize.h"
#include "gguf/gguf_types.h"

namespace neuronmm::gguf {
namespace {

constexpr uint64_t kSeedOfBlocks = 5;
constexpr int64_t kRowsOfBlocks = 40, kColumnsOfBlocks = 768;

struct TypeAndHalves {
  io::GgufTensorType type;
  std::vector<int64_t> halves;  // where a block has fp16 numbers, which must be finite
};
using Number = io::GgufTensorType;
const TypeAndHalves kCodedTypes[] = {
    {Number::kQ4_0, {0}},    {Number::kQ4_1, {0, 2}}, {Number::kQ5_0, {0}},
    {Number::kQ5_1, {0, 2}}, {Number::kQ8_0, {0}},    {Number::kIQ4_NL, {0}},
    {Number::kMXFP4, {}},    {Number::kQ4_K, {0, 2}}, {Number::kQ6_K, {208}}};

class CodedBlocksTest : public testing::TestWithParam<TypeAndHalves> {
 protected:
  CodedBlocksTest() {
    const int64_t blocks = kRowsOfBlocks * kColumnsOfBlocks / type_.block_elements;
    for (int64_t i = 0; i < blocks * type_.block_bytes; ++i) {
      bytes_.push_back(static_cast<std::byte>(random_() & 0xFF));
    }
    std::uniform_real_distribution<float> number(-0.01f, 0.01f);
    for (int64_t block = 0; block < blocks; ++block) {
      std::byte* const at = bytes_.data() + block * type_.block_bytes;
      for (const int64_t offset : GetParam().halves) {
        const uint16_t bits = f16::from_float(number(random_)).bits;
        std::memcpy(at + offset, &bits, sizeof bits);
      }
      // A power of two near 1.
      if (GetParam().type == Number::kMXFP4) *at = static_cast<std::byte>(120 + random_() % 8);
    }
  }

  std::unique_ptr<const CodedBlocks> coded(int64_t head_rows,
                                           const LowBitFormat& packed = {.bits = 8}) const {
    return CodedBlocks::make({&type_, bytes_.data(), kRowsOfBlocks, kColumnsOfBlocks, head_rows},
                             packed);
  }
  // Returns the values in the order of the file's rows.
  std::vector<float> dequantized() const {
    std::vector<float> values(static_cast<size_t>(kRowsOfBlocks * kColumnsOfBlocks));
    dequantize(type_, bytes_.data(), std::ssize(values), values.data());
    return values;
  }
  static void expect_bits(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i])) << i;
    }
  }

  std::mt19937_64 random_{kSeedOfBlocks};
  const io::GgufTypeInfo& type_ = *io::find_gguf_type(static_cast<uint32_t>(GetParam().type));
  std::vector<std::byte> bytes_;
};
INSTANTIATE_TEST_SUITE_P(Type, CodedBlocksTest, testing::ValuesIn(kCodedTypes),
                         [](const auto& info) {
                           const auto number = static_cast<uint32_t>(info.param.type);
                           return std::string(io::find_gguf_type(number)->name);
                         });

// The formula of codes, scales and zero points or minimums gives 0 where the block gives -0, which
// compares equal.
TEST_P(CodedBlocksTest, CodesAndScalesGiveTheValuesOfTheBlock) {
  const auto blocks = coded(0);
  ASSERT_NE(blocks, nullptr);
  std::vector<float> found(static_cast<size_t>(kRowsOfBlocks * kColumnsOfBlocks));
  blocks->CodedValues::read(blocks->view(), 0, std::ssize(found), found.data());
  const std::vector<float> expected = dequantized();
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << i;
}

TEST_P(CodedBlocksTest, ReadsRowsOfHeadsInTheOrderOfReaders) {
  constexpr int64_t kHead = 8;
  const auto blocks = coded(kHead);
  const TensorView rows = blocks->view(3, 30);
  std::vector<float> found(static_cast<size_t>(30 * kColumnsOfBlocks - 5));
  to_floats(rows, 5, std::ssize(found), found.data());
  const std::vector<float> stored = dequantized();
  std::vector<float> expected;
  for (int64_t row = 3; row < 33; ++row) {
    const auto begin = stored.begin() + stored_row(row, kHead) * kColumnsOfBlocks;
    expected.insert(expected.end(), begin, begin + kColumnsOfBlocks);
  }
  expected.erase(expected.begin(), expected.begin() + 5);
  expect_bits(found, expected);
}

TEST_P(CodedBlocksTest, ProductsInFp32AreThoseOfTheValues) {
  const auto backend =
      cpu::make_backend(cpu::best_kernels({.most_dot_products = cpu::DotProducts::kNone}),
                        cpu::KeysAndValues::kAuto, cpu::ForeignWeights::kExact);
  const auto blocks = coded(0);
  const std::vector<float> values = dequantized();
  const TensorView floats = {DType::kF32,
                             {kRowsOfBlocks, kColumnsOfBlocks},
                             reinterpret_cast<const std::byte*>(values.data())};
  const auto layer = backend->make_linear({.w_t = blocks->view()});
  const auto float_layer = backend->make_linear({.w_t = floats});
  std::normal_distribution<float> normal;
  for (const int64_t m : {1, 3, 7, 40}) {
    Matrix x(m, kColumnsOfBlocks), y(m, kRowsOfBlocks), expected(m, kRowsOfBlocks);
    for (int64_t i = 0; i < m * kColumnsOfBlocks; ++i) x.data()[i] = normal(random_);
    layer->apply(x.view(), y.view());
    float_layer->apply(x.view(), expected.view());
    for (int64_t i = 0; i < m * kRowsOfBlocks; ++i) {
      ASSERT_EQ(y.data()[i], expected.data()[i]) << "M " << m << ", " << i;
    }
  }
}

// Backends that round weights take the nearest format of ours. Those that want exact weights keep
// the codes, in little more memory than the file takes.
TEST_P(CodedBlocksTest, OnlyExactWeightsKeepTheirCodes) {
  const auto blocks = coded(0), kept = coded(0, {.bits = 32});
  using cpu::ForeignWeights, cpu::PackedMatrix, cpu::WeightType;
  EXPECT_EQ(PackedMatrix(blocks->view(), ForeignWeights::kNearest).type(), WeightType::kInt8);
  EXPECT_EQ(PackedMatrix(kept->view(), ForeignWeights::kNearest).type(), WeightType::kCoded);
  const PackedMatrix exact(blocks->view(), ForeignWeights::kExact);
  EXPECT_EQ(exact.type(), WeightType::kCoded);
  const double per_weight = 8.0 * static_cast<double>(exact.size_bytes()) / (64 * kColumnsOfBlocks);
  const double in_file =
      8.0 * static_cast<double>(type_.block_bytes) / static_cast<double>(type_.block_elements);
  const bool stored_as_bytes = codes_per_byte(blocks->kind()) == 1 && in_file < 8;
  EXPECT_LT(per_weight, stored_as_bytes ? 9.1 : in_file + 0.3);
}

TEST(CodedBlocksTypes, OtherTypesAreNoCodes) {
  const io::GgufTypeInfo& type = *io::find_gguf_type(static_cast<uint32_t>(Number::kIQ3_S));
  EXPECT_EQ(CodedBlocks::make({&type, nullptr, 0, 0, 0}, {}), nullptr);
}

}  // namespace
}  // namespace neuronmm::gguf
