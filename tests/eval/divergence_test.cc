// This test compares divergences with a transformer in fp64 and the definition of KL, and with
// closed forms.

#include "eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "eval/eval_test.h"
#include "eval/folder_divergence.h"
#include "model/naive_transformer.h"

namespace neuronmm::eval {
namespace {

class DivergenceTest : public EvalTest {};

Result<std::vector<SequenceDivergence>> token_divergences(
    const model::Transformer& dense, const model::Transformer& other,
    const std::vector<std::vector<TokenId>>& sequences) {
  std::vector<SequenceDivergence> result;
  for (const std::vector<TokenId>& sequence : sequences) {
    NMM_ASSIGN(result.emplace_back(), sequence_divergence(dense, other, sequence));
  }
  return result;
}

std::vector<long double> probabilities(const std::vector<double>& logits) {
  std::vector<long double> p;
  long double sum = 0.0L;
  for (const double logit : logits)
    sum += p.emplace_back(std::exp(static_cast<long double>(logit)));
  for (long double& value : p) value /= sum;
  return p;
}

struct Window {
  double sum = 0.0, tokens = 0.0;
};

// Returns the linearised standard error of a ratio of sums, from the means of both.
double error_of_ratio(const std::vector<Window>& windows) {
  const auto n = static_cast<double>(windows.size());
  double mean_sum = 0.0, mean_tokens = 0.0, variance = 0.0;
  for (const Window& window : windows) {
    mean_sum += window.sum / n;
    mean_tokens += window.tokens / n;
  }
  for (const Window& window : windows) {
    variance += std::pow(window.sum - mean_sum / mean_tokens * window.tokens, 2) / (n - 1);
  }
  return std::sqrt(variance / n) / mean_tokens;
}

TEST_F(DivergenceTest, AgreesWithTheDefinitionInFp64) {
  config_.num_hidden_layers = 2;
  config_.layers.resize(static_cast<size_t>(config_.num_hidden_layers));
  const model::TestTensors a = model::random_tensors(config_, 1);
  const model::TestTensors b = model::random_tensors(config_, 2);
  const std::vector<std::vector<TokenId>> sequences = {random_tokens(40, config_.vocab_size, 3),
                                                       random_tokens(2, config_.vocab_size, 4),
                                                       random_tokens(64, config_.vocab_size, 5)};
  const auto tokens = value_of(token_divergences(load(a), load(b), sequences));
  ASSERT_EQ(tokens.size(), 3u);
  long double sum = 0.0L, dense_loss = 0.0L, loss = 0.0L;
  int64_t same_choices = 0;
  std::vector<Window> windows;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const std::vector<TokenId>& sequence = sequences[s];
    ASSERT_EQ(tokens[s].size(), sequence.size() - 1);
    windows.push_back({0.0, static_cast<double>(sequence.size() - 1)});
    const auto logits_a = model::naive_logits(config_, a, sequence);
    const auto logits_b = model::naive_logits(config_, b, sequence);
    for (size_t i = 0; i + 1 < sequence.size(); ++i) {
      const auto p = probabilities(logits_a[i]), q = probabilities(logits_b[i]);
      long double divergence = 0.0L;
      for (size_t k = 0; k < p.size(); ++k) divergence += p[k] * std::log(p[k] / q[k]);
      const auto target = static_cast<size_t>(sequence[i + 1]);
      EXPECT_NEAR(tokens[s][i].divergence, static_cast<double>(divergence), 1e-4);
      EXPECT_NEAR(tokens[s][i].dense_loss, static_cast<double>(-std::log(p[target])), 1e-4);
      EXPECT_NEAR(tokens[s][i].loss, static_cast<double>(-std::log(q[target])), 1e-4);
      const bool same =
          std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
      EXPECT_EQ(tokens[s][i].same_choice, same);
      same_choices += same ? 1 : 0;
      windows.back().sum += static_cast<double>(divergence);
      sum += divergence;
      dense_loss -= std::log(p[target]);
      loss -= std::log(q[target]);
    }
  }
  const DivergenceSummary summary = summarize(tokens);
  EXPECT_EQ(summary.tokens, 103);
  EXPECT_NEAR(summary.divergence.value, static_cast<double>(sum / 103.0L), 1e-4);
  EXPECT_NEAR(summary.divergence.standard_error, error_of_ratio(windows), 1e-4);
  EXPECT_EQ(summary.divergence.samples, 3);
  EXPECT_DOUBLE_EQ(summary.agreement.value, static_cast<double>(same_choices) / 103.0);
  EXPECT_NEAR(summary.added_loss.value, static_cast<double>((loss - dense_loss) / 103.0L), 1e-4);
  EXPECT_NEAR(summary.perplexity_ratio(), summary.perplexity / summary.dense_perplexity, 1e-12);
  EXPECT_NEAR(summary.dense_perplexity / static_cast<double>(std::exp(dense_loss / 103.0L)), 1.0,
              1e-4);
  EXPECT_NEAR(summary.perplexity / static_cast<double>(std::exp(loss / 103.0L)), 1.0, 1e-4);
  EXPECT_GT(summary.divergence.value, 0.01);  // otherwise the comparison above would mean little
  EXPECT_GT(summary.divergence.standard_error, 1e-3);
  EXPECT_GT(same_choices, 0);
  EXPECT_LT(same_choices, 103);
}

// The sequence has more tokens than one forward call takes. Dividing it into pieces changes
// nothing.
TEST_F(DivergenceTest, LongSequencesAreComputedInPieces) {
  config_.max_position_embeddings = 1024;
  const model::TestTensors a = model::random_tensors(config_, 1);
  const model::TestTensors b = model::random_tensors(config_, 2);
  const std::vector<TokenId> sequence = random_tokens(700, config_.vocab_size, 6);
  const auto tokens = value_of(token_divergences(load(a), load(b), {sequence}));
  ASSERT_EQ(tokens.at(0).size(), 699u);
  const auto logits_a = model::naive_logits(config_, a, sequence);
  for (const size_t i : {0u, 255u, 256u, 511u, 512u, 698u}) {
    const auto p = probabilities(logits_a[i]);
    EXPECT_NEAR(tokens[0][i].dense_loss,
                static_cast<double>(-std::log(p[static_cast<size_t>(sequence[i + 1])])), 1e-4)
        << i;
  }
}

TEST_F(DivergenceTest, IsZeroForAModelAndItself) {
  const auto model = random_model(7);
  const std::vector<std::vector<TokenId>> sequences = {random_tokens(30, config_.vocab_size, 8)};
  const DivergenceSummary summary = summarize(value_of(token_divergences(model, model, sequences)));
  EXPECT_NEAR(summary.divergence.value, 0.0, 1e-15);
  EXPECT_EQ(summary.dense_perplexity, summary.perplexity);
  EXPECT_EQ(summary.agreement.value, 1.0);
  EXPECT_EQ(summary.added_loss.value, 0.0);
}

TEST_F(DivergenceTest, IsNotFiniteIfLogitsAreNotFinite) {
  model::TestTensors non_finite = model::random_tensors(config_, 1);
  non_finite.at("lm_head.weight").values[3] = INFINITY;
  const std::vector<std::vector<TokenId>> sequences = {random_tokens(10, config_.vocab_size, 8)};
  const DivergenceSummary summary =
      summarize(value_of(token_divergences(random_model(7), load(non_finite), sequences)));
  EXPECT_FALSE(std::isfinite(summary.divergence.value));
  EXPECT_TRUE(std::isfinite(summary.dense_perplexity));
}

TEST_F(DivergenceTest, FoldersThatPredictNaNAreNamed) {
  const model::TestTensors good = model::random_tensors(config_, 1);
  model::TestTensors non_finite = good;
  non_finite.at("model.norm.weight").values[3] = NAN;
  const model::ModelFolder a, b;
  for (const model::ModelFolder* const folder : {&a, &b}) {
    folder->write_text("config.json", model::config_json(config_));
    folder->write_tensors(folder == &a ? good : non_finite);
  }
  const std::vector<std::vector<TokenId>> sequences = {random_tokens(10, config_.vocab_size, 8)};
  const auto message = [&](const model::ModelFolder& dense, const model::ModelFolder& other) {
    return message_of(folder_divergence(dense.path(), other.path(), sequences, backend_, silent_));
  };
  EXPECT_EQ(message(a, a), "no error");
  EXPECT_TRUE(has(message(b, a), b.path().string() + ": its predictions hold NaN"));
  EXPECT_TRUE(has(message(a, b), "the model made of " + a.path().string() + " predicts NaN"));
}

// Running both models layer by layer, one after the other, gives the same bits as loading both.
TEST_F(DivergenceTest, FolderDivergenceHasTheBitsOfLoadedModels) {
  config_.num_hidden_layers = 3;
  config_.layers.resize(static_cast<size_t>(config_.num_hidden_layers));
  config_.max_position_embeddings = 512;
  const model::TestTensors tensors[] = {model::random_tensors(config_, 1),
                                        model::random_tensors(config_, 2)};
  const model::ModelFolder a, b;
  for (const model::ModelFolder* const folder : {&a, &b}) {
    folder->write_text("config.json", model::config_json(config_));
    folder->write_tensors(tensors[folder == &b]);
  }
  const std::vector<std::vector<TokenId>> sequences = {random_tokens(300, config_.vocab_size, 3),
                                                       random_tokens(2, config_.vocab_size, 4)};
  const auto found = value_of(folder_divergence(a.path(), b.path(), sequences, backend_, silent_));
  const auto of_models =
      summarize(value_of(token_divergences(load(tensors[0]), load(tensors[1]), sequences)));
  EXPECT_EQ(found.tokens, 300);
  EXPECT_EQ(found.divergence.value, of_models.divergence.value);
  EXPECT_EQ(found.divergence.standard_error, of_models.divergence.standard_error);
  EXPECT_EQ(found.dense_perplexity, of_models.dense_perplexity);
  EXPECT_EQ(found.perplexity, of_models.perplexity);
  EXPECT_EQ(found.agreement.value, of_models.agreement.value);
}

TEST_F(DivergenceTest, RefusesModelsThatCannotBeCompared) {
  const auto model = random_model(1);
  const auto message = [&](std::vector<TokenId> sequence) {
    return message_of(token_divergences(model, model, {std::move(sequence)}));
  };
  EXPECT_TRUE(has(message({1}), "at least 2 tokens, found 1"));
  EXPECT_TRUE(has(message(std::vector<TokenId>(65, 1)),
                  "at most 64 tokens (max_position_embeddings), found 65"));
  EXPECT_TRUE(has(message({1, 19}), "found 19 at position 1"));
  set_interrupted(true);
  EXPECT_TRUE(has(message({1, 2}), "interrupted"));
  set_interrupted(false);
  config_.vocab_size = 20;
  const std::vector<std::vector<TokenId>> sequences = {{1, 2}};
  EXPECT_TRUE(has(message_of(token_divergences(model, random_model(1), sequences)),
                  "vocab_size, found 19 and 20"));
}

}  // namespace
}  // namespace neuronmm::eval
