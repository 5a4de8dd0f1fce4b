// Tests whole imports of small files that the tests write themselves.

#include "gguf/import.h"

#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "gguf/small_gguf.h"
#include "io/checkpoint.h"
#include "io/generation_config.h"
#include "io/io_test.h"
#include "io/model_config.h"
#include "model/generate.h"

namespace neuronmm::gguf {
namespace {

namespace fs = std::filesystem;
using io::fails_with;

class Import : public testing::Test {
 protected:
  fs::path write(const std::string& bytes, const std::string& name = "m.gguf") const {
    io::put(root_ / name, bytes);
    return root_ / name;
  }
  Result<ImportSummary> import(const fs::path& file, DType dtype = DType::kF32) const {
    Progress silent;
    return import_model(file, out(), dtype, /*force=*/true, silent);
  }
  Result<ImportSummary> import(const GgufBuilder& builder, DType dtype = DType::kF32) const {
    return import(write(builder.bytes()), dtype);
  }
  void expect_weights(const SmallModel& model) const {
    const auto checkpoint = io::Checkpoint::open(out());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    ASSERT_EQ(checkpoint->tensors().size(), model.expected.size());
    for (const auto& [name, values] : model.expected) {
      ASSERT_TRUE(checkpoint->has(name)) << name;
      std::vector<float> found(values.size());
      to_floats(checkpoint->tensors().at(name), 0, std::ssize(found), found.data());
      EXPECT_EQ(found, values) << name;
    }
  }
  io::ModelConfig config() const { return *io::ModelConfig::load(out() / "config.json"); }
  fs::path out() const { return root_ / "out"; }
  bool left_any_output() const { return fs::exists(out()) || fs::exists(root_ / "out.partial"); }
  const io::TemporaryFolder root_;
};

TEST_F(Import, TensorsOfEveryArchitectureGetTheirFolderNames) {
  struct Case {
    std::string architecture;
    bool biases;
    io::Architecture expected;
  };
  for (const Case& each : {Case{"llama", false, io::Architecture::kLlama},
                           Case{"llama", true, io::Architecture::kQwen2},
                           Case{"qwen2", true, io::Architecture::kQwen2},
                           Case{"qwen2", false, io::Architecture::kLlama},
                           Case{"qwen3", false, io::Architecture::kQwen3}}) {
    SCOPED_TRACE(each.architecture);
    const SmallModel model(each.architecture, each.biases);
    const auto summary = import(model.builder);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    expect_weights(model);
    EXPECT_EQ(config().architecture, each.expected);
    EXPECT_TRUE(config().tie_word_embeddings);
    EXPECT_EQ(config().rms_norm_eps, 1e-5);
    EXPECT_EQ(config().head_dim, static_cast<int64_t>(kHeadDim));
    EXPECT_EQ(config().vocab_size, static_cast<int64_t>(kVocab));
    EXPECT_EQ(config().dtype, DType::kF32);
    EXPECT_EQ(summary->architecture, each.architecture);
    EXPECT_FALSE(summary->tokenizer);
  }
}

TEST_F(Import, KeysBecomeTheConfig) {
  SmallModel model;
  model.builder.f32("llama.rope.freq_base", 5e5f).u32("llama.attention.sliding_window", 16);
  model.builder.tensor("output.weight", {kHidden, kVocab}, std::vector<float>(kHidden * kVocab));
  ASSERT_TRUE(import(model.builder, DType::kBF16).ok());
  EXPECT_EQ(config().architecture, io::Architecture::kMistral);
  EXPECT_EQ(config().layers[0].window, 16);
  EXPECT_EQ(config().ropes[0].theta, 500000.0);
  EXPECT_FALSE(config().tie_word_embeddings);
  EXPECT_EQ(config().dtype, DType::kBF16);

  SmallModel linear;
  linear.builder.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0f);
  ASSERT_TRUE(import(linear.builder).ok());
  EXPECT_EQ(std::get<io::LinearRopeScaling>(config().ropes[0].scaling).factor, 4.0);

  SmallModel llama3;
  llama3.builder.tensor("rope_freqs.weight", {kHeadDim / 2}, {1.0f, 8.0f});
  llama3.builder.f32("llama.rope.freq_base", 1e9f);
  ASSERT_TRUE(import(llama3.builder).ok());
  EXPECT_EQ(std::get<io::Llama3RopeScaling>(config().ropes[0].scaling).factor, 8.0);
}

TEST_F(Import, AHeadThatIsTheTableIsTied) {
  SmallModel model;
  model.add_head(model.expected.at("model.embed_tokens.weight"));
  const auto summary = import(model.builder);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(config().tie_word_embeddings);
  expect_weights(model);
  ASSERT_FALSE(summary->notes.empty());
  EXPECT_NE(
      summary->notes.front().find("token_embd.weight (F32) and output.weight (F32) are equal"),
      std::string::npos)
      << summary->notes.front();
}

TEST_F(Import, AHeadOfItsOwnStaysTwo) {
  SmallModel model;
  std::vector<float> head = model.expected.at("model.embed_tokens.weight");
  for (float& value : head) value *= 1.01f;
  model.add_head(head).expected["lm_head.weight"] = head;
  ASSERT_TRUE(import(model.builder).ok());
  EXPECT_FALSE(config().tie_word_embeddings);
  expect_weights(model);
}

TEST_F(Import, YarnUsesTheParametersOfTheFileOrTheDefaults) {
  SmallModel given;
  given.builder.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0f);
  given.builder.u32("llama.rope.scaling.original_context_length", 512);
  given.builder.f32("llama.rope.scaling.attn_factor", 1.0f);
  given.builder.f32("llama.rope.scaling.yarn_beta_fast", 16.0f);
  given.builder.f32("llama.rope.scaling.yarn_beta_slow", 2.0f);
  ASSERT_TRUE(import(given.builder).ok());
  const auto scaling = std::get<io::YarnRopeScaling>(config().ropes[0].scaling);
  EXPECT_EQ(scaling.factor, 4.0);
  EXPECT_EQ(scaling.original_max_position_embeddings, 512);
  EXPECT_EQ(scaling.beta_fast, 16.0);
  EXPECT_EQ(scaling.beta_slow, 2.0);
  EXPECT_FALSE(scaling.attention_factor);

  SmallModel defaults;
  ASSERT_TRUE(import(defaults.builder).ok());
  const int64_t context = config().max_position_embeddings;
  defaults.builder.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 2.0f);
  ASSERT_TRUE(import(defaults.builder).ok());
  const auto other = std::get<io::YarnRopeScaling>(config().ropes[0].scaling);
  EXPECT_EQ(other.original_max_position_embeddings, static_cast<double>(context));
  EXPECT_EQ(other.beta_fast, 32.0);
  EXPECT_EQ(other.beta_slow, 1.0);
  EXPECT_EQ(config().max_position_embeddings, 2 * context);
}

TEST_F(Import, UnsupportedFeaturesAreRefusedByName) {
  struct Case {
    std::string_view words;
    std::function<void(GgufBuilder&)> add;
  };
  const Case cases[] = {
      {"\"longrope\"", [](GgufBuilder& b) { b.text("llama.rope.scaling.type", "longrope"); }},
      {"llama.rope.scaling.attn_factor",
       [](GgufBuilder& b) {
         b.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.attn_factor", 1.2f);
       }},
      {"llama.rope.scaling.yarn_ext_factor",
       [](GgufBuilder& b) {
         b.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.yarn_ext_factor", 0.0f);
       }},
      {"llama.rope.scaling.yarn_log_multiplier",
       [](GgufBuilder& b) {
         b.text("llama.rope.scaling.type", "yarn")
             .f32("llama.rope.scaling.yarn_log_multiplier", 0.1f);
       }},
      {"\"factor\": expected a number from 1 to",
       [](GgufBuilder& b) {
         b.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 0.5f);
       }},
      {"llama.expert_used_count", [](GgufBuilder& b) { b.u32("llama.expert_count", 8); }},
      {"\"num_experts_per_tok\" is 9, but \"num_local_experts\" is 8",
       [](GgufBuilder& b) { b.u32("llama.expert_count", 8).u32("llama.expert_used_count", 9); }},
      {"tensor \"blk.0.ffn_gate_inp.weight\" is missing",
       [](GgufBuilder& b) { b.u32("llama.expert_count", 8).u32("llama.expert_used_count", 2); }},
      {"\"blk.0.ffn_gate_inp.weight\": expected a row for each of the 2 experts",
       [](GgufBuilder& b) {
         b.u32("llama.expert_count", 2).u32("llama.expert_used_count", 1);
         b.tensor("blk.0.ffn_gate_inp.weight", {kHidden, 3}, std::vector<float>(3 * kHidden));
       }},
      {"llama.attention.scale", [](GgufBuilder& b) { b.f32("llama.attention.scale", 0.1f); }},
      {"llama.logit_scale", [](GgufBuilder& b) { b.f32("llama.logit_scale", 8.0f); }},
      {"a part of each head", [](GgufBuilder& b) { b.u32("llama.rope.dimension_count", 2); }},
      {"value_length", [](GgufBuilder& b) { b.u32("llama.attention.value_length", 2); }},
      {"attention.causal", [](GgufBuilder& b) { b.boolean("llama.attention.causal", false); }},
      {"tensor \"blk.0.attn_q_norm.weight\" is none",
       [](GgufBuilder& b) {
         b.tensor("blk.0.attn_q_norm.weight", {4}, {1, 1, 1, 1});
       }},
      {"\"llama.block_count\" is 1, but the file has tensors of 2 layers",
       [](GgufBuilder& b) { b.tensor("blk.1.ffn_up.weight", {1}, {1}); }},
      {"tensor \"output.bias\"", [](GgufBuilder& b) { b.tensor("output.bias", {1}, {1}); }},
      {"\"output.weight\": its type Q8_1 is not supported, expected one of F32",
       [](GgufBuilder& b) {
         b.tensor("output.weight", {kHidden, kVocab}, 24, std::string(40, '\1'));
       }},
      {"\"output.weight\": expected the shape [5, 8], found [5, 9]",
       [](GgufBuilder& b) {
         b.tensor("output.weight", {9, 5}, std::vector<float>(45));
       }},
      {"rope_freqs.weight",
       [](GgufBuilder& b) {
         b.tensor("rope_freqs.weight", {3}, {1, 1, 1});
       }},
      {"at most the 5 rows of token_embd.weight, found 6",
       [](GgufBuilder& b) {
         b.text("tokenizer.ggml.model", "llama");
         b.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f"});
       }},
  };
  for (const Case& each : cases) {
    SmallModel model;
    each.add(model.builder);
    std::string words(each.words);
    if (const size_t at = words.find("Q8_1"); at != std::string::npos) words.replace(at, 4, "I8");
    EXPECT_TRUE(fails_with(import(model.builder), {"m.gguf", words}));
    EXPECT_FALSE(left_any_output()) << each.words;
  }
  GgufBuilder other;
  other.text("general.architecture", "gptneox").tensor("a", {1}, {1.0f});
  EXPECT_TRUE(
      fails_with(import(other), {"\"gptneox\" is not supported", "one of llama, deci, qwen2"}));
  GgufBuilder nameless;
  nameless.tensor("a", {1}, {1.0f});
  EXPECT_TRUE(fails_with(import(nameless), {"general.architecture", "missing"}));
  EXPECT_TRUE(fails_with(import(GgufBuilder()), {"expected tensors or a vocabulary"}));
}

TEST_F(Import, MissingKeysAndTensorsAreNamed) {
  GgufBuilder keys;
  keys.text("general.architecture", "llama").tensor("token_embd.weight", {2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(fails_with(import(keys), {"\"llama.embedding_length\" is missing"}));
  keys.u32("llama.embedding_length", 0);
  EXPECT_TRUE(fails_with(import(keys), {"embedding_length", "an integer from 1, found uint32 0"}));
  SmallModel norms("qwen3");
  GgufBuilder qwen3;
  qwen3.text("general.architecture", "qwen3");
  EXPECT_TRUE(fails_with(import(qwen3.tensor("x", {1}, {1})), {"qwen3.embedding_length"}));
}

TEST_F(Import, NonFiniteAndTooLargeWeightsAreRefused) {
  const auto with_output = [](std::vector<float> values) {
    SmallModel model;
    values.resize(kHidden * kVocab);
    model.builder.tensor("output.weight", {kHidden, kVocab}, values);
    return model.builder;
  };
  for (const float wrong : {NAN, INFINITY, -INFINITY}) {
    EXPECT_TRUE(
        fails_with(import(with_output({1.0f, wrong})), {"\"output.weight\" (F32)", "finite"}));
    EXPECT_FALSE(left_any_output());
  }
  EXPECT_TRUE(fails_with(import(with_output({65520.0f}), DType::kF16),
                         {"\"output.weight\"", "65520 is too large for F16", "--dtype f32"}));
  EXPECT_TRUE(import(with_output({65519.0f}), DType::kF16).ok());
  fs::remove_all(out());
  EXPECT_TRUE(fails_with(import(with_output({3.4e38f}), DType::kBF16), {"too large for BF16"}));
  EXPECT_TRUE(import(with_output({3.4e38f}), DType::kF32).ok());
}

TEST_F(Import, UnusedTensorsAreLeftOutAndNamed) {
  SmallModel model;
  model.builder.tensor("mm.0.weight", {2}, {1, 2})
      .tensor("blk.0.attn_rot_embd.weight", {2}, {1, 2});
  const auto summary = import(model.builder);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  expect_weights(model);
  EXPECT_NE(fmt::format("{}", fmt::join(summary->notes, "\n")).find("mm.0.weight"),
            std::string::npos);
}

TEST_F(Import, AVocabularyAloneGivesATokenizer) {
  GgufBuilder builder;
  builder.text("general.architecture", "gptneox").text("tokenizer.ggml.model", "llama");
  builder.texts("tokenizer.ggml.tokens", {"<unk>", "a", "b", "ab"});
  const auto summary = import(builder);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->tokenizer);
  EXPECT_TRUE(fs::exists(out() / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(out() / "config.json"));
}

// Returns the metadata of a vocabulary of the five tokens that SmallModel has.
GgufBuilder& add_vocabulary(GgufBuilder& builder) {
  builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "qwen2");
  builder.texts("tokenizer.ggml.tokens", {"a", "b", "<|endoftext|>", "<|im_end|>", "c"});
  builder.numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 3, 3, 1});
  return builder.texts("tokenizer.ggml.merges", {}).u32("tokenizer.ggml.eos_token_id", 3);
}

TEST_F(Import, AllEndsAreWrittenAndReported) {
  SmallModel model;
  add_vocabulary(model.builder);
  const auto summary = import(model.builder);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  ASSERT_EQ(summary->end_tokens.size(), 2u);
  EXPECT_EQ(summary->end_tokens[0].text, "<|im_end|>");
  EXPECT_EQ(summary->end_tokens[1].id, 2);
  const auto generation = io::GenerationConfig::load(out());
  ASSERT_TRUE(generation.ok());
  EXPECT_EQ(model::stop_tokens_of(*generation, config()), (std::vector<text::TokenId>{3, 2}));
  EXPECT_EQ(config().eos_token_ids, (std::vector<int64_t>{3, 2}));
}

TEST_F(Import, AVocabularyMayBeImportedAgain) {
  GgufBuilder vocabulary;
  const auto file = write(add_vocabulary(vocabulary).bytes());
  for (int i = 0; i < 2; ++i) {
    const auto summary = import(file);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_TRUE(summary->class_name.empty() && summary->tokenizer);
    EXPECT_TRUE(fs::exists(out() / "tokenizer.json") && !fs::exists(out() / "config.json"));
  }
}

TEST_F(Import, PartsOfModelsAreNamed) {
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"general.architecture", "clip"}, "mmproj"},
      {{"general.type", "mmproj"}, "mmproj"},
      {{"general.type", "adapter"}, "llama-export-lora"},
      {{"general.type", "imatrix"}, "importance matrix"}};
  for (const auto& [pair, words] : cases) {
    GgufBuilder builder;
    builder.text(pair.first, pair.second).tensor("a", {4}, std::vector<float>(4));
    EXPECT_TRUE(fails_with(import(builder), {"m.gguf", words}));
    EXPECT_FALSE(left_any_output());
  }
}

TEST_F(Import, OtherFilesAreNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {"<html>", "a web page"},
      {io::safetensors_bytes("{}"), "found a safetensors file"},
      {std::string(64, '\0'), "zeros only"}};
  for (const auto& [bytes, words] : cases)
    EXPECT_TRUE(fails_with(import(write(bytes)), {"m.gguf", "expected a GGUF file", words}));
}

TEST_F(Import, AFailedOrInterruptedImportLeavesNothing) {
  const auto file = write(SmallModel().builder.bytes());
  io::put(root_ / "b.gguf", "");
  EXPECT_TRUE(fails_with(import(root_.path()), {"is a folder", "b.gguf, m.gguf in it"}));
  EXPECT_TRUE(fails_with(import(root_ / "absent.gguf"), {"absent.gguf"}));
  EXPECT_TRUE(
      fails_with(import(root_ / "b.gguf"), {"b.gguf: expected a GGUF file, found an empty file"}));
  set_interrupted(true);
  const auto interrupted = import(file);
  set_interrupted(false);
  ASSERT_FALSE(interrupted.ok());
  EXPECT_EQ(interrupted.error().kind, Error::Kind::kInterrupted);
  EXPECT_FALSE(left_any_output());
  Progress silent;
  ASSERT_TRUE(import(file).ok());
  EXPECT_TRUE(fails_with(import_model(file, out(), DType::kF32, /*force=*/false, silent), {"out"}));
}

}  // namespace
}  // namespace neuronmm::gguf
