// This test compares models with their own logits, with recorded ones, and with logits that it
// changes.

#include "eval/accuracy_check.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "eval/eval_test.h"

namespace neuronmm::eval {
namespace {

constexpr AccuracyOptions::Mode kTokenMatching = AccuracyOptions::Mode::kTokenMatching;

class AccuracyCheck : public EvalTest {
 protected:
  // Returns the model's own logits for some random tokens; a test then changes them.
  ReferenceLogits own_logits(const model::Transformer& transformer, int64_t first_position = 0) {
    ReferenceLogits reference(2);
    for (size_t s = 0; s < reference.size(); ++s) {
      reference[s].tokens = random_tokens(7, config_.vocab_size, 40 + s);
      reference[s].first_position = first_position;
      reference[s].logits = position_logits(transformer, reference[s].tokens, first_position);
    }
    return reference;
  }
  AccuracyReport check(const model::Transformer& transformer, const ReferenceLogits& reference,
                       const AccuracyOptions& options = {}) {
    return value_of(check_accuracy(transformer, reference, options, silent_));
  }
};

// Returns ids from the largest logit of a row to the smallest.
std::vector<TokenId> ranking(const float* row, int64_t count) {
  std::vector<TokenId> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return row[a] > row[b]; });
  return ids;
}

TEST_F(AccuracyCheck, FourModelsMatchTheirRecordedLogits) {
  for (const std::string name : kOracles) {
    SCOPED_TRACE(name);
    NMM_TEST_DATA_OR_SKIP(weights, "oracles/hf-tiny/" + name + ".safetensors");
    const Oracle oracle = load_oracle(weights.parent_path(), name, backend_);
    ReferenceLogits reference =
        value_of(parse_reference_logits(oracle.logits_json, name, oracle.transformer.config()));
    const AccuracyReport report = check(oracle.transformer, reference, {.divergence_tol = 1e-4});
    EXPECT_TRUE(report.passed) << report.first_failure;
    EXPECT_EQ(report.sequences, 3);
    EXPECT_EQ(report.positions, 48);
    EXPECT_LT(report.largest_deviation.value, 1e-5);
    RecordProperty(name, fmt::format("{:.3g}", report.largest_deviation.value));

    reference[1].logits.row(3)[4] += 2e-4f;
    const AccuracyReport failed = check(oracle.transformer, reference, {.divergence_tol = 1e-4});
    EXPECT_FALSE(failed.passed);
    EXPECT_TRUE(has(failed.first_failure, "sequence 1, position 3: the logits differ by 0.0002"))
        << failed.first_failure;
  }
}

TEST_F(AccuracyCheck, AModelAgreesWithItself) {
  const model::Transformer transformer = random_model(33);
  for (const int64_t first_position : {0, 6}) {
    const AccuracyReport report =
        check(transformer, own_logits(transformer, first_position), {.divergence_tol = 0.0});
    EXPECT_TRUE(report.passed) << report.first_failure;
    EXPECT_EQ(report.positions, 2 * (7 - first_position));
    EXPECT_EQ(report.largest_deviation.value, 0.0);
    EXPECT_EQ(report.divergences, 0);
    EXPECT_FALSE(report.first_divergence);
  }
}

TEST_F(AccuracyCheck, AnotherModelFails) {
  const model::Transformer transformer = random_model(33);
  const ReferenceLogits reference = own_logits(random_model(34));
  EXPECT_FALSE(check(transformer, reference).passed);
  EXPECT_FALSE(check(transformer, reference, {.mode = kTokenMatching}).passed);
}

TEST_F(AccuracyCheck, ReportsThePositionOfTheLargestDeviation) {
  const model::Transformer transformer = random_model(35);
  ReferenceLogits reference = own_logits(transformer, 2);
  reference[0].logits.row(1)[4] -= 0.25f;
  reference[1].logits.row(3)[17] -= 0.5f;
  const AccuracyReport report = check(transformer, reference);
  EXPECT_FALSE(report.passed);
  EXPECT_NEAR(report.largest_deviation.value, 0.5, 1e-6);
  EXPECT_EQ(report.largest_deviation.sequence, 1);
  EXPECT_EQ(report.largest_deviation.position, 5);
  EXPECT_EQ(report.largest_deviation.token, 17);
  EXPECT_EQ(report.largest_deviation.reference_logit, reference[1].logits.row(3)[17]);
  EXPECT_TRUE(has(report.first_failure, "sequence 0, position 3: the logits differ by 0.25"))
      << report.first_failure;
}

TEST_F(AccuracyCheck, ReportsTheTokensAndGapOfADivergence) {
  const model::Transformer transformer = random_model(36);
  ReferenceLogits reference = own_logits(transformer);
  float* const row = reference[1].logits.row(2);
  const std::vector<TokenId> ids = ranking(row, config_.vocab_size);
  const double gap = static_cast<double>(row[ids[0]]) - row[ids[3]];
  row[ids[3]] = row[ids[0]] + 0.5f;  // the reference prefers the model's fourth token

  AccuracyOptions options = {.divergence_tol = gap * 0.99,
                             .tolerance_map = ToleranceMap{{std::nullopt, 1000.0, 0.0}}};
  const AccuracyReport report = check(transformer, reference, options);
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.divergences, 1);
  ASSERT_TRUE(report.first_divergence);
  EXPECT_EQ(report.first_divergence->sequence, 1);
  EXPECT_EQ(report.first_divergence->position, 2);
  EXPECT_EQ(report.first_divergence->reference_token, ids[3]);
  EXPECT_EQ(report.first_divergence->model_token, ids[0]);
  EXPECT_NEAR(report.first_divergence->logit_gap, gap, 1e-12);
  EXPECT_TRUE(has(report.first_failure, fmt::format("token {} instead of {}", ids[0], ids[3])))
      << report.first_failure;

  options.divergence_tol = gap * 1.01;
  EXPECT_TRUE(check(transformer, reference, options).passed);
  options.mode = kTokenMatching;
  EXPECT_FALSE(check(transformer, reference, options).passed);
}

TEST_F(AccuracyCheck, TokenMatchingIgnoresLogitsThatChooseTheSame) {
  const model::Transformer transformer = random_model(37);
  ReferenceLogits reference = own_logits(transformer);
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t token = 0; token < 19; ++token) reference[0].logits.row(i)[token] *= 3.0f;
  }
  EXPECT_TRUE(check(transformer, reference, {.mode = kTokenMatching}).passed);
  EXPECT_FALSE(check(transformer, reference).passed);
}

// Tolerances count from the reference's largest logits and are relative to the largest magnitude
// among them.
TEST_F(AccuracyCheck, ToleranceMapAppliesToTheLargestReferenceLogits) {
  const model::Transformer transformer = random_model(38);
  ReferenceLogits reference = own_logits(transformer);
  float* const row = reference[0].logits.row(4);
  const std::vector<TokenId> ids = ranking(row, config_.vocab_size);
  const double largest = std::max(std::abs(row[ids[0]]), std::abs(row[ids[18]]));
  row[ids[7]] -= 1e-4f;  // the eighth largest; the change is too small to affect ranks much
  const auto passes = [&](ToleranceMap map) {
    return check(transformer, reference, {.tolerance_map = std::move(map)}).passed;
  };
  EXPECT_TRUE(passes({{5, 0.0, 0.0}}));
  EXPECT_FALSE(passes({{10, 0.0, 0.0}}));
  EXPECT_FALSE(passes({{std::nullopt, 0.0, 0.0}}));
  EXPECT_FALSE(passes({{1000, 0.0, 0.0}}));  // larger than the vocabulary, so it covers all logits
  EXPECT_FALSE(passes({{5, 0.0, 0.0}, {std::nullopt, 0.9e-4, 0.0}}));
  EXPECT_TRUE(passes({{5, 0.0, 0.0}, {std::nullopt, 1.1e-4, 0.0}}));
  EXPECT_FALSE(passes({{std::nullopt, 0.0, 0.9e-4 / largest}}));
  EXPECT_TRUE(passes({{std::nullopt, 0.0, 1.1e-4 / largest}}));
  // Absolute and relative tolerance add up.
  EXPECT_TRUE(passes({{std::nullopt, 0.6e-4, 0.6e-4 / largest}}));
}

TEST_F(AccuracyCheck, LogitsThatAreNotFiniteFail) {
  const ReferenceLogits reference = own_logits(random_model(39));
  model::TestTensors tensors = model::random_tensors(config_, 39);
  tensors["lm_head.weight"].values[6 * config_.hidden_size] =
      std::numeric_limits<float>::quiet_NaN();
  const AccuracyReport report =
      check(load(tensors), reference, {.tolerance_map = ToleranceMap{{std::nullopt, 1e30, 1e30}}});
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.largest_deviation.value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(report.largest_deviation.token, 6);
}

TEST_F(AccuracyCheck, RefusesReferencesThatDoNotFit) {
  const model::Transformer transformer = random_model(41);
  const auto message = [&](const ReferenceLogits& reference) {
    return message_of(check_accuracy(transformer, reference, {}, silent_));
  };
  ReferenceLogits reference = own_logits(transformer);
  reference[1].logits = Matrix(7, 18);
  EXPECT_TRUE(has(message(reference), "expected logits of 19 tokens")) << message(reference);
  reference[1].logits = Matrix(65, 19);
  reference[1].tokens.assign(65, 1);
  EXPECT_TRUE(has(message(reference), "65 tokens is longer than")) << message(reference);
  reference = own_logits(transformer);
  backend_.on_attention = [] { set_interrupted(true); };
  EXPECT_EQ(message(reference), "interrupted: 1 of 2 sequences compared");
}

}  // namespace
}  // namespace neuronmm::eval
