// Tests which models each target can run, and which layers get a fused kernel.

#include "exports/check_exportable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tiny_model.h"

namespace neuronmm::exports {
namespace {

using io::Architecture;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns a config that both targets run: heads have hidden_size / heads elements, and both layers
// have two factors of rank 4.
io::ModelConfig good(Architecture architecture) {
  io::ModelConfig config = model::tiny_config(architecture);
  config.head_dim = config.hidden_size / config.num_attention_heads;
  config.dtype = DType::kBF16;
  config.ropes[0].scaling = {};
  config.layers.clear();
  config.attention_bias = architecture == Architecture::kQwen2;
  config.compression = model::tiny_record("uv", {{4, 4, 4}, {4, 4, 4}});
  return config;
}

std::string refusal(const io::ModelConfig& config, Target target) {
  const Status status = check_exportable(config, target, "small");
  return status.ok() ? "" : status.error().message;
}

TEST(CheckExportable, EveryArchitectureIsExportableUnlessThePluginLacksIt) {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kMistral, Architecture::kQwen2, Architecture::kQwen3}) {
    EXPECT_EQ(refusal(good(architecture), Target::kNxdi), "");
    EXPECT_EQ(refusal(good(architecture), Target::kVllmNeuron),
              architecture == Architecture::kQwen2
                  ? "small: the models of vllm-neuron have no biases of q, k and v; nxdi has"
                  : "");
  }
}

TEST(CheckExportable, RefusesModelsThatAreNotCompressedOrNotInBf16) {
  io::ModelConfig config = good(Architecture::kLlama);
  config.dtype = DType::kF32;
  EXPECT_THAT(refusal(config, Target::kNxdi), HasSubstr("\"torch_dtype\": expected bfloat16"));
  config.quantization = io::Quantization{};
  EXPECT_THAT(refusal(config, Target::kNxdi),
              HasSubstr("small: weights of int8 are not supported by nxdi"));
  config.quantization->format = {.bits = 4, .group = 16};
  EXPECT_THAT(refusal(config, Target::kVllmNeuron),
              HasSubstr("weights of 4 bits in groups of 16 are not supported by vllm-neuron"));
  config = good(Architecture::kLlama);
  config.compression.reset();
  EXPECT_THAT(refusal(config, Target::kNxdi), HasSubstr("small: is not a compressed model"));
}

TEST(CheckExportable, RefusesFeaturesThatATargetWouldIgnore) {
  io::ModelConfig window = good(Architecture::kMistral);
  window.fill_layers({.window = 8});
  EXPECT_EQ(refusal(window, Target::kNxdi), "");
  EXPECT_THAT(refusal(window, Target::kVllmNeuron), HasSubstr("no sliding window; nxdi has"));

  io::ModelConfig heads = good(Architecture::kQwen2);
  heads.head_dim = 6;
  EXPECT_THAT(refusal(heads, Target::kNxdi), HasSubstr("no head_dim of 6"));
  heads = good(Architecture::kMistral);  // both targets run its layers as Llama's
  heads.head_dim = 6;
  EXPECT_EQ(refusal(heads, Target::kVllmNeuron), "");
  EXPECT_EQ(refusal(heads, Target::kNxdi), "");

  io::ModelConfig tied = good(Architecture::kQwen3);
  tied.tie_word_embeddings = true;
  EXPECT_EQ(refusal(tied, Target::kNxdi), "");
  EXPECT_THAT(refusal(tied, Target::kVllmNeuron), HasSubstr("tied"));

  for (const auto architecture :
       {Architecture::kLlama, Architecture::kMistral, Architecture::kQwen3}) {
    io::ModelConfig scaled = good(architecture);
    scaled.ropes[0].scaling = io::Llama3RopeScaling{};
    const bool llama = architecture != Architecture::kQwen3;
    for (const Target target : {Target::kVllmNeuron, Target::kNxdi}) {
      EXPECT_EQ(refusal(scaled, target).empty(), llama);
      scaled.ropes[0].scaling = io::YarnRopeScaling{};
      EXPECT_THAT(refusal(scaled, target), HasSubstr("RoPE scaling \"yarn\""));
      scaled.ropes[0].scaling = io::Llama3RopeScaling{};
    }
  }
}

TEST(KernelUse, IsForThreePairsOfFactorsOfOneRank) {
  io::ModelConfig config = good(Architecture::kLlama);
  config.num_hidden_layers = 5;
  config.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  config.compression =
      model::tiny_record("uv", {{4, 4, 4}, {8, 8, 8}, {4, 0, 4}, {4, 4, 4}, {0, 0, 0}});
  const KernelUse use = kernel_use(config, Target::kVllmNeuron);
  ASSERT_EQ(use.fused.size(), 2U);
  EXPECT_EQ(use.fused[0].rank, 4);
  EXPECT_THAT(use.fused[0].layers, ElementsAre(0, 3));
  EXPECT_THAT(use.fused[1].layers, ElementsAre(1));
  EXPECT_THAT(use.unequal, ElementsAre(2));
  EXPECT_THAT(use.notes, ElementsAre("layers 2: plain torch products without our fused kernel, "
                                     "because their ranks differ within an MLP",
                                     "layers 4: dense, as plain torch products"));
  EXPECT_THAT(kernel_use(config, Target::kNxdi).fused, IsEmpty());
}

TEST(KernelUse, OtherFormsArePlainProducts) {
  io::ModelConfig config = good(Architecture::kLlama);
  config.compression = model::tiny_record("mixed", {{.input = 8}, {.neurons = 16}});
  const KernelUse use = kernel_use(config, Target::kVllmNeuron);
  EXPECT_THAT(use.fused, IsEmpty());
  ASSERT_EQ(use.notes.size(), 1U);
  EXPECT_THAT(use.notes[0], HasSubstr("the form \"mixed\""));
}

}  // namespace
}  // namespace neuronmm::exports
