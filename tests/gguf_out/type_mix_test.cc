// Tests which type each tensor gets, against the rules of llama-quantize (llama.cpp,
// src/llama-quant.cpp) written out for a model of 24 layers.

#include "gguf_out/type_mix.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace neuronmm::gguf_out {
namespace {

const MixedModel kModel = {.layers = 24, .tied = true, .queries_per_key = 7};

BlockType type_of(const char* mix, const std::string& tensor, const MixedModel& model = kModel) {
  return mixed_type(*find_type_mix(mix), tensor, model);
}

std::string layer(int index, const std::string& module) {
  return "model.layers." + std::to_string(index) + "." + module + ".weight";
}

TEST(TypeMix, HeadsHaveMoreBits) {
  for (const char* const mix : {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"})
    EXPECT_EQ(type_of(mix, "model.embed_tokens.weight"), BlockType::kQ6_K) << mix;
  MixedModel untied = kModel;
  untied.tied = false;
  EXPECT_EQ(type_of("Q4_K", "model.embed_tokens.weight", untied), BlockType::kQ4_K);
  EXPECT_EQ(type_of("Q4_K", "lm_head.weight", untied), BlockType::kQ6_K);
  EXPECT_EQ(type_of("Q8_0", "lm_head.weight", untied), BlockType::kQ8_0);
}

TEST(TypeMix, HalfOfTheValuesAndDownProjectionsHaveMoreBits) {
  // n/8 is 3: layers 0 to 2, those from 21 on, and every third from 5 on.
  const std::set<int> picked = {0, 1, 2, 5, 8, 11, 14, 17, 20, 21, 22, 23};
  for (int i = 0; i < 24; ++i) {
    const bool more = picked.contains(i);
    for (const std::string module : {"self_attn.v_proj", "mlp.down_proj"}) {
      EXPECT_EQ(type_of("Q4_K", layer(i, module)), more ? BlockType::kQ6_K : BlockType::kQ4_K);
      EXPECT_EQ(type_of("Q5_K", layer(i, module)), more ? BlockType::kQ6_K : BlockType::kQ5_K);
      EXPECT_EQ(type_of("Q4_0", layer(i, module)), BlockType::kQ4_0);
    }
    EXPECT_EQ(type_of("Q4_K", layer(i, "mlp.up_proj")), BlockType::kQ4_K);
  }
}

// As llama-quantize does with an importance matrix.
TEST(TypeMix, ATextChangesEarlyDownProjections) {
  for (int i = 0; i < 24; ++i) {
    TypeMix q4_0 = *find_type_mix("Q4_0"), iq4_nl = *find_type_mix("IQ4_NL");
    EXPECT_EQ(mixed_type(iq4_nl, layer(i, "mlp.down_proj"), kModel),
              i < 3 ? BlockType::kQ5_K : BlockType::kIq4Nl);
    q4_0.calibrated = iq4_nl.calibrated = true;
    EXPECT_EQ(mixed_type(q4_0, layer(i, "mlp.down_proj"), kModel),
              i < 3 ? BlockType::kQ4_1 : BlockType::kQ4_0);
    EXPECT_EQ(mixed_type(iq4_nl, layer(i, "mlp.down_proj"), kModel), BlockType::kIq4Nl);
    EXPECT_EQ(mixed_type(q4_0, layer(i, "mlp.up_proj"), kModel), BlockType::kQ4_0);
  }
}

TEST(TypeMix, RowsThatAreNoBlocksGetAnotherType) {
  EXPECT_EQ(fitting_type(BlockType::kQ4_K, 512), BlockType::kQ4_K);
  EXPECT_EQ(fitting_type(BlockType::kQ4_K, 576), BlockType::kQ5_0);
  EXPECT_EQ(fitting_type(BlockType::kQ5_K, 576), BlockType::kQ5_1);
  EXPECT_EQ(fitting_type(BlockType::kQ6_K, 576), BlockType::kQ8_0);
  EXPECT_EQ(fitting_type(BlockType::kQ4_0, 48), BlockType::kF16);
  EXPECT_EQ(fitting_type(BlockType::kQ4_K, 48), BlockType::kF16);
  EXPECT_EQ(fitting_type(BlockType::kBf16, 7), BlockType::kBf16);
}

}  // namespace
}  // namespace neuronmm::gguf_out
