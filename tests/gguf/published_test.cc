// Tests published GGUF files. The logits must be those of transformers, and a model must tell its
// known story.

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/tensor.h"
#include "cpu/backend.h"
#include "gguf/import.h"
#include "io/checkpoint.h"
#include "io/io_test.h"
#include "io/safetensors.h"
#include "model/generate.h"
#include "model/transformer.h"
#include "test_data.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::gguf {
namespace {

namespace fs = std::filesystem;
using text::TokenId;

// The logits are fp32 sums over 30 layers with a magnitude of about 30.
constexpr double kLogitTolerance = 3e-4;

class PublishedGguf : public testing::Test {
 protected:
  void import(const fs::path& file) {
    Progress silent;
    const auto summary = import_model(file, out(), DType::kF32, /*force=*/true, silent);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
  }
  fs::path out() const { return root_ / "out"; }
  const io::TemporaryFolder root_;
  const std::unique_ptr<ops::Backend> backend_ = cpu::make_backend();
};

std::vector<float> floats(const io::SafetensorsFile& file, const std::string& name) {
  const TensorView& tensor = file.tensors().at(name);
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  return values;
}

// The expected logits of the last position and greedy continuations come from transformers in fp32,
// on the same dequantized weights.
TEST_F(PublishedGguf, SmolLm2ComputesWhatTransformersDoes) {
  NMM_TEST_DATA_OR_SKIP(data, "models/smollm2-135m-instruct");
  import(data / "SmolLM2-135M-Instruct.Q4_1.gguf");
  const auto transformer = model::Transformer::load(out(), *backend_);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const auto tokenizer = text::Tokenizer::load(out());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto logits = io::SafetensorsFile::open(data / "logits.safetensors");
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  std::ifstream file(data / "cases.json");
  for (const auto& each : nlohmann::json::parse(file)) {
    const std::string name = each["name"];
    SCOPED_TRACE(name);
    const std::vector<TokenId> ids = each["ids"];
    const auto encoded = tokenizer->encode(each["text"].get<std::string>());
    ASSERT_TRUE(encoded.ok()) << encoded.error().message;
    EXPECT_EQ(*encoded, ids);
    const std::vector<float> expected = floats(*logits, name + ".last_logits");
    const auto generation = model::generate(*transformer, ids, {.max_new_tokens = 48});
    ASSERT_TRUE(generation.ok()) << generation.error().message;
    EXPECT_EQ(generation->tokens, each["greedy_ids"].get<std::vector<TokenId>>());
    const auto cache = transformer->make_cache(std::ssize(ids), DType::kF32);
    const Matrix found = transformer->forward(ids, *cache, model::Transformer::Logits::kLast);
    ASSERT_EQ(found.columns(), std::ssize(expected));
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(found.row(0)[i], expected[i], kLogitTolerance) << i;
#ifdef NEURONMM_SANITIZED
    // A single text is enough, because each takes minutes with sanitizers.
    break;
#endif
  }
}

TEST_F(PublishedGguf, TinyLlamaHasTheWeightsOfItsSafetensors) {
  NMM_TEST_DATA_OR_SKIP(data, "oracles/hf-tiny");
  for (const auto& [gguf, safetensors] :
       {std::pair{"tiny_llama_f32.gguf", "tiny_llama.safetensors"},
        std::pair{"tiny_llama_f16.gguf", "tiny_llama.safetensors"},
        std::pair{"tiny_llama_q8.gguf", "tiny_llama_q8.safetensors"}}) {
    SCOPED_TRACE(gguf);
    import(data / gguf);
    const auto expected = io::SafetensorsFile::open(data / safetensors);
    const auto found = io::Checkpoint::open(out());
    ASSERT_TRUE(expected.ok() && found.ok());
    for (const auto& [name, tensor] : found->tensors()) {
      ASSERT_TRUE(expected->tensors().contains(name)) << name;
      std::vector<float> values(static_cast<size_t>(tensor.size()));
      to_floats(tensor, 0, tensor.size(), values.data());
      const std::vector<float> originals = floats(*expected, name);
      ASSERT_EQ(values.size(), originals.size()) << name;
      float largest = 0.0f;
      for (const float value : originals) largest = std::max(largest, std::abs(value));
      // Q8_0 keeps 8 bits of the largest of 32 weights. The files of floats hold bf16 values
      // exactly.
      const float tolerance =
          std::string_view(gguf) == "tiny_llama_q8.gguf" ? largest / 127.0f : largest / 1024.0f;
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], originals[i], tolerance) << name << " " << i;
    }
  }
}

TEST_F(PublishedGguf, Stories260KGeneratesThePublishedText) {
  NMM_TEST_DATA_OR_SKIP(data, "models/stories260K");
  import(data / "stories260K.gguf");
  const auto transformer = model::Transformer::load(out(), *backend_);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const auto tokens =
      model::generate(*transformer, std::vector<TokenId>{1}, {.max_new_tokens = 40});
  ASSERT_TRUE(tokens.ok());
  std::ifstream file(out() / "tokenizer.json");
  const auto vocab = nlohmann::json::parse(file)["model"]["vocab"];
  std::map<int, std::string> pieces;
  for (const auto& [piece, id] : vocab.items()) pieces[id] = piece;
  std::string text;
  for (const TokenId id : tokens->tokens) text += pieces.at(id);
  const std::string known = "▁Once▁upon▁a▁time,▁there▁was▁a▁little▁girl▁named▁Lily.";
  EXPECT_EQ(text.substr(0, known.size()), known);
}

}  // namespace
}  // namespace neuronmm::gguf
