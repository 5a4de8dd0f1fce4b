// This test compares the sampler with the probabilities that transformers' processors compute from
// the same logits (make_golden_sampling.py).

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/sampler.h"
#include "model/token_logprobs.h"
#include "places.h"

namespace neuronmm::model {
namespace {

nlohmann::json golden_sampling() {
  std::ifstream file(source_dir() / "tests/model/golden_sampling.json");
  return nlohmann::json::parse(file);
}

SamplingOptions options_of(const nlohmann::json& json) {
  SamplingOptions options = {.temperature = json.at("temperature"),
                             .top_k = json.value("top_k", int64_t{0}),
                             .top_p = json.value("top_p", 1.0),
                             .min_p = json.value("min_p", 0.0),
                             .repetition_penalty = json.value("repetition_penalty", 1.0),
                             .frequency_penalty = json.value("frequency_penalty", 0.0),
                             .presence_penalty = json.value("presence_penalty", 0.0)};
  for (const auto& bias : json.value("logit_bias", nlohmann::json::array()))
    options.logit_bias.push_back({bias[0], bias[1]});
  return options;
}

TEST(GoldenSampling, ProbabilitiesMatchTheReference) {
  const auto golden = golden_sampling();
  const std::vector<float> logits = golden["logits"];
  const std::vector<TokenId> prompt = golden["prompt"], generated = golden["generated"];
  ASSERT_GT(golden["cases"].size(), 20u);
  for (const auto& one : golden["cases"]) {
    SCOPED_TRACE(one["options"].dump());
    const Sampler sampler(options_of(one["options"]));
    std::vector<double> found(logits.size());
    double total = 0.0;
    for (const Candidate& candidate : sampler.candidates(logits, prompt, generated)) {
      found[static_cast<size_t>(candidate.id)] = candidate.weight;
      total += candidate.weight;
    }
    const std::vector<double> expected = one["probabilities"];
    for (size_t id = 0; id < logits.size(); ++id) {
      EXPECT_NEAR(found[id] / total, expected[id], 1e-12 * expected[id]) << "token " << id;
    }
  }
}

TEST(GoldenSampling, GreedyTakesTheReferencesMostLikelyToken) {
  const auto golden = golden_sampling();
  const std::vector<float> logits = golden["logits"];
  const std::vector<TokenId> prompt = golden["prompt"], generated = golden["generated"];
  for (const auto& one : golden["cases"]) {
    SamplingOptions options = options_of(one["options"]);
    options.temperature = 0.0;
    const std::vector<double> expected = one["probabilities"];
    EXPECT_EQ(Sampler(options).sample(logits, prompt, generated),
              std::max_element(expected.begin(), expected.end()) - expected.begin())
        << one["options"];
  }
}

TEST(GoldenSampling, LogprobsMatchTheReference) {
  const auto golden = golden_sampling();
  const std::vector<float> logits = golden["logits"];
  const std::vector<double> expected = golden["log_probabilities"];
  // Exponentials are fp32 (ops/log_sum.h), with a relative error of at most 2^-23. The rounding of
  // their argument adds at most as much where it matters.
  constexpr double kTolerance = 0x1p-22;
  const auto found = token_logprobs(logits, 5, std::ssize(logits));
  EXPECT_EQ(found.chosen.id, 5);
  EXPECT_NEAR(found.chosen.logprob, expected[5], kTolerance);
  ASSERT_EQ(found.top.size(), logits.size());
  for (const TokenLogprob& token : found.top)
    EXPECT_NEAR(token.logprob, expected[static_cast<size_t>(token.id)], kTolerance) << token.id;
}

}  // namespace
}  // namespace neuronmm::model
