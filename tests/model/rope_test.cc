// This test compares the frequencies of rotary embeddings with their formulas, with transformers,
// and with published values.

#include "model/rope.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/transformer.h"
#include "places.h"
#include "test_data.h"

namespace neuronmm::model {
namespace {

TEST(RopeInverseFrequencies, ArePowersOfTheta) {
  io::ModelConfig config;
  config.head_dim = 8;
  config.ropes[0].theta = 10000.0;
  const ops::RotaryEmbedding rotary = rotary_embedding(config.ropes[0], config.head_dim);
  EXPECT_EQ(rotary.inverse_frequencies, (std::vector<float>{1.0f, 0.1f, 0.01f, 0.001f}));
  EXPECT_EQ(rotary.attention_factor, 1.0f);
}

TEST(RopeInverseFrequencies, Llama3ScalingKeepsShortAndStretchesLongWavelengths) {
  io::ModelConfig config;
  config.head_dim = 128;
  config.ropes[0].theta = 500000.0;
  const std::vector<float> plain =
      rotary_embedding(config.ropes[0], config.head_dim).inverse_frequencies;
  config.ropes[0].scaling = io::Llama3RopeScaling{.factor = 8.0};
  const std::vector<float> scaled =
      rotary_embedding(config.ropes[0], config.head_dim).inverse_frequencies;
  for (size_t j = 0; j < plain.size(); ++j) {
    const double wavelength = 2 * 3.14159265358979 / static_cast<double>(plain[j]);
    const double kept = static_cast<double>(scaled[j] / plain[j]);
    if (wavelength < 8192 / 4.0) {
      EXPECT_EQ(kept, 1.0) << j;
    } else if (wavelength > 8192) {
      EXPECT_EQ(kept, 0.125) << j;
    } else {
      EXPECT_GT(kept, 0.125) << j;
      EXPECT_LT(kept, 1.0) << j;
    }
  }
}

TEST(RopeInverseFrequencies, LinearScalingDividesAllFrequencies) {
  io::ModelConfig config;
  config.head_dim = 8;
  config.ropes[0].theta = 10000.0;
  config.ropes[0].scaling = io::LinearRopeScaling{4.0};
  EXPECT_EQ(rotary_embedding(config.ropes[0], config.head_dim).inverse_frequencies,
            (std::vector<float>{0.25f, 0.025f, 0.0025f, 0.00025f}));
}

// The file rope_golden.json holds the results of transformers' functions in fp64
// (make_rope_golden.py).
TEST(RopeInverseFrequencies, EveryVariantMatchesTransformers) {
  std::ifstream file(source_dir() / "tests/model/rope_golden.json");
  const auto golden = nlohmann::json::parse(file);
  ASSERT_GT(golden.size(), 15u);
  for (const auto& [name, expected] : golden.items()) {
    SCOPED_TRACE(name);
    const auto config = io::ModelConfig::parse(expected["config"].dump(), "config.json");
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->max_position_embeddings, expected["max_position_embeddings"]);
    const ops::RotaryEmbedding found = rotary_embedding(config->ropes[0], config->head_dim);
    EXPECT_FLOAT_EQ(found.attention_factor, expected["attention_factor"].get<float>());
    const std::vector<double> frequencies = expected["inverse_frequencies"];
    ASSERT_EQ(found.inverse_frequencies.size(), frequencies.size());
    for (size_t j = 0; j < frequencies.size(); ++j) {  // equal except for the rounding to fp32
      EXPECT_NEAR(static_cast<double>(found.inverse_frequencies[j]), frequencies[j],
                  1e-7 * frequencies[j])
          << j;
    }
  }
}

TEST(RopeInverseFrequencies, MatchThePublishedFrequenciesOfLlama32) {
  NMM_TEST_DATA_OR_SKIP(path, "oracles/paged-infer/llama3_rope_inv_freq.json");
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  io::ModelConfig config;
  config.head_dim = json["head_dim"];
  config.ropes[0].theta = json["rope_theta"];
  const auto& scaling = json["rope_scaling"];
  config.ropes[0].scaling = io::Llama3RopeScaling{scaling["factor"], scaling["low_freq_factor"],
                                                  scaling["high_freq_factor"],
                                                  scaling["original_max_position_embeddings"]};
  const std::vector<float> found =
      rotary_embedding(config.ropes[0], config.head_dim).inverse_frequencies;
  const std::vector<double> expected = json["inv_freq"];
  ASSERT_EQ(found.size(), expected.size());
  for (size_t j = 0; j < found.size(); ++j)
    EXPECT_NEAR(found[j], expected[j], 1e-6 * expected[j]) << j;
}

}  // namespace
}  // namespace neuronmm::model
