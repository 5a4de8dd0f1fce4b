// This test checks model folders with weights of 6 and 4 bits: how they are read, and what is
// refused.

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends.h"
#include "model/tensor_specs.h"
#include "ops/reference.h"
#include "tiny_model.h"

namespace neuronmm::model {
namespace {

constexpr io::Architecture kArchitecture = io::Architecture::kLlama;
const io::Quantization kFourAndSix = {{4, 16}, {{"lm_head", {6}}, {"v_proj", {8}}}};

class LowBitFolder : public testing::Test {
 protected:
  LowBitFolder() { config.quantization = kFourAndSix; }

  std::string load_error() const {
    const auto backend = ops::make_reference_backend();
    const auto transformer = load_tiny(config, tensors, *backend);
    return transformer.ok() ? "" : transformer.error().message;
  }
  void expect_error_naming(const std::vector<std::string>& parts) const {
    const std::string message = load_error();
    for (const std::string& part : parts) EXPECT_THAT(message, testing::HasSubstr(part));
  }

  const std::string kName = "model.layers.1.mlp.up_proj.weight";  // [24, 16]
  const std::string kScale = kName + "_scale", kGroup = kName + "_group";
  io::ModelConfig config = tiny_config(kArchitecture);
  TestTensors floats = random_tensors(config, 1);
  TestTensors tensors = quantized_tensors(config, floats, kFourAndSix);
};

TEST_F(LowBitFolder, LoadsRoundedWeights) {
  EXPECT_EQ(load_error(), "");
  EXPECT_EQ(tensors.at(kName).shape, Shape({24, 8}));
  EXPECT_EQ(tensors.at(kGroup).shape, Shape({24, 1}));
  EXPECT_EQ(tensors.at("lm_head.weight").dtype, DType::kU8);
  EXPECT_FALSE(tensors.contains("lm_head.weight_group"));
  EXPECT_EQ(tensors.at("model.layers.0.self_attn.v_proj.weight").dtype, DType::kI8);
}

TEST_F(LowBitFolder, RefusesTensorsOfAnotherShapeOrDType) {
  const TestTensors right = tensors;
  tensors.at(kName).shape = {12, 16};
  expect_error_naming({kName, "expected U8 [24, 8]", "found U8 [12, 16]"});
  tensors = right;
  tensors.at(kName).dtype = DType::kI8;
  expect_error_naming({kName, "expected U8 [24, 8]", "found I8 [24, 8]"});
  tensors = right;
  tensors.erase(kGroup);
  expect_error_naming({kGroup, "missing", "U8 [24, 1]"});
  tensors = right;
  tensors.at(kGroup).shape = {12, 2};
  expect_error_naming({kGroup, "expected U8 [24, 1]", "found U8 [12, 2]"});
  tensors = right;
  tensors.erase(kScale);
  expect_error_naming({kScale, "missing", "[24, 1]"});
  tensors = right;
  config.quantization.reset();
  expect_error_naming({"tensor", "U8", "config.json has no neuronmm_quantization"});
  config.quantization = io::Quantization{{6}};
  expect_error_naming({"tensor", "expected U8"});
}

TEST_F(LowBitFolder, RefusesValuesOutsideTheFormat) {
  const TestTensors right = tensors;
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -0.5f}) {
    tensors.at(kScale).values[7] = bad;
    expect_error_naming({kScale, "finite", fmt::format("found {} at [7, 0]", bad)});
  }
  tensors = right;
  tensors.at(kGroup).values[5] = 0x0F;  // values are 16 · q - 64, up to 176
  expect_error_naming({kGroup, "within ±127", "found -64 to 176 at [5, 0]"});
  tensors.at(kGroup).values[5] = 0xFF;  // values are 16 · q - 184
  expect_error_naming({kGroup, "found -184 to 56 at [5, 0]"});
  tensors = right;
  // [vocabulary, 16]: 8 bytes of low bits, then 4 of high bits.
  TestTensor& head = tensors.at("lm_head.weight");
  head.values[12 * 3 + 1] = 0;  // the codes of columns 2 and 3
  head.values[12 * 3 + 8] = 0;
  expect_error_naming({"lm_head.weight", "codes of 1 to 63", "found 0 at [3, 2]"});
}

// A backend computes with the numbers that the format defines for the stored bytes.
TEST_F(LowBitFolder, ComputesLikeTheExpandedFloatWeights) {
  for (const io::Quantization& quantization :
       {io::Quantization{{6}}, io::Quantization{{4, 32}}, kFourAndSix}) {
    for (const bool tied : {false, true}) {
      config = tiny_config(kArchitecture);
      config.tie_word_embeddings = tied;
      floats = random_tensors(config, 2);
      tensors = quantized_tensors(config, floats, quantization);
      TestTensors expanded = floats;
      for (auto& [name, tensor] : expanded) {
        if (is_linear(name, config))
          tensor.values = values_of(tensor, quantization.format_of(name));
      }
      const std::vector<TokenId> tokens = random_tokens(6, config.vocab_size, 3);
      const auto backend = ops::make_reference_backend();
      const auto plain = load_tiny(config, expanded, *backend);
      config.quantization = quantization;
      const auto low = load_tiny(config, tensors, *backend);
      ASSERT_TRUE(plain.ok() && low.ok()) << (low.ok() ? "" : low.error().message);
      const Matrix expected = all_logits(*plain, tokens), logits = all_logits(*low, tokens);
      for (int64_t i = 0; i < expected.rows() * expected.columns(); ++i) {
        ASSERT_EQ(logits.data()[i], expected.data()[i]);
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::model
