// This test compares perplexities with closed forms, an fp64 transformer and recorded logits.

#include "eval/perplexity.h"

#include <cmath>
#include <limits>
#include <random>

#include "eval/eval_test.h"
#include "eval/perplexity_json.h"
#include "model/naive_transformer.h"

namespace neuronmm::eval {
namespace {

class Perplexity : public EvalTest {};

TEST_F(Perplexity, StandardErrorMatchesSeparatelyScoredChunks) {
  constexpr int64_t kContext = 16, kChunks = 7;
  const auto model = load(model::random_tensors(config_, 8));
  const auto tokens = random_tokens(kContext * kChunks, config_.vocab_size, 9);
  std::vector<double> means;
  for (int64_t i = 0; i < kChunks; ++i) {
    const auto chunk = std::span(tokens).subspan(i * kContext, kContext);
    const auto alone = value_of(perplexity(model, chunk, kContext, silent_));
    EXPECT_TRUE(std::isnan(alone.standard_error));
    means.push_back(std::log(alone.perplexity));
  }
  double mean = 0.0, variance = 0.0;
  for (const double value : means) mean += value / kChunks;
  for (const double value : means) variance += (value - mean) * (value - mean) / (kChunks - 1);
  const auto report = value_of(perplexity(model, tokens, kContext, silent_));
  // The tolerance allows the cancellation of squares near 9 in fp64.
  EXPECT_NEAR(report.standard_error, report.perplexity * std::sqrt(variance / kChunks), 1e-6);
  EXPECT_GT(report.standard_error, 1e-3);
}

// Returns -log softmax(logits)[target] by the definition.
template <typename Row>
long double naive_loss(const Row& logits, int64_t count, TokenId target) {
  long double sum = 0.0L;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<long double>(logits[i]));
  return std::log(sum) - static_cast<long double>(logits[target]);
}

double exp_mean(long double sum, int64_t count) {
  return static_cast<double>(std::exp(sum / static_cast<long double>(count)));
}

TEST_F(Perplexity, UniformLogitsGiveTheVocabularySize) {
  model::TestTensors tensors = model::random_tensors(config_, 1);
  for (float& value : tensors.at("lm_head.weight").values) value = 0.0f;
  const auto report =
      value_of(perplexity(load(tensors), random_tokens(64, config_.vocab_size, 2), 16, silent_));
  EXPECT_NEAR(report.perplexity, 19.0, 1e-12 * 19.0);
}

// Attention and MLP are switched off, embeddings are one-hot, and the head holds log-probabilities.
// The model is then a table of bigrams, whose perplexity has a closed form.
TEST_F(Perplexity, MatchesTheClosedFormOfABigramModel) {
  constexpr int64_t kVocab = 16, kContext = 9, kChunks = 5;
  config_.vocab_size = config_.hidden_size = kVocab;
  config_.rms_norm_eps = 1e-12;
  model::TestTensors tensors = model::random_tensors(config_, 3);
  for (auto& [name, tensor] : tensors) {
    const float value = tensor.shape.size() == 1 ? 1.0f : 0.0f;
    std::fill(tensor.values.begin(), tensor.values.end(), value);
  }
  std::mt19937_64 random(3);
  double log_p[kVocab][kVocab];
  for (int64_t token = 0; token < kVocab; ++token) {
    double sum = 0.0;
    for (double& weight : log_p[token]) sum += weight = 1.0 + static_cast<double>(random() % 1000);
    tensors["model.embed_tokens.weight"].values[token * kVocab + token] = 1.0f;
    // RMS norm scales the one-hot vector to sqrt(kVocab).
    for (int64_t next = 0; next < kVocab; ++next) {
      log_p[token][next] = std::log(log_p[token][next] / sum);
      tensors["lm_head.weight"].values[next * kVocab + token] =
          static_cast<float>(log_p[token][next] / std::sqrt(double{kVocab}));
    }
  }
  const std::vector<TokenId> tokens = random_tokens(kChunks * kContext + 4, kVocab, 4);
  long double sum = 0.0L;
  for (int64_t i = 0; i < kChunks * kContext; ++i) {
    if (i % kContext != 0) sum -= log_p[tokens[i - 1]][tokens[i]];
  }
  const double expected = exp_mean(sum, kChunks * (kContext - 1));

  const auto report = value_of(perplexity(load(tensors), tokens, kContext, silent_));
  // Logits are below 16 in magnitude and are rounded to fp32 in the head, the norm and the product.
  EXPECT_NEAR(report.perplexity, expected, expected * 3 * 16 * 0x1p-24);
  EXPECT_EQ(report.context, kContext);
  EXPECT_EQ(report.chunks, kChunks);
  EXPECT_EQ(report.scored_tokens, 40);
  EXPECT_EQ(report.tokens, 49);
}

// The reference is an fp64 transformer without cache or chunks; chunks are longer than one forward
// call.
TEST_F(Perplexity, AgreesWithAnIndependentFp64Model) {
  constexpr int64_t kContext = 600, kChunks = 2;
  config_.max_position_embeddings = 700;
  const model::TestTensors tensors = model::random_tensors(config_, 5);
  std::vector<TokenId> tokens = random_tokens(kChunks * kContext + 500, config_.vocab_size, 6);
  long double sum = 0.0L;
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    const auto begin = tokens.begin() + chunk * kContext;
    const std::vector<TokenId> context(begin, begin + kContext);
    const auto logits = model::naive_logits(config_, tensors, context);
    for (int64_t i = 1; i < kContext; ++i) {
      sum += naive_loss(logits[i - 1], config_.vocab_size, context[i]);
    }
  }
  const model::Transformer transformer = load(tensors);
  const auto value = [&] {
    return value_of(perplexity(transformer, tokens, kContext, silent_)).perplexity;
  };
  const auto report = value_of(perplexity(transformer, tokens, kContext, silent_));
  const double expected = exp_mean(sum, kChunks * (kContext - 1));
  EXPECT_NEAR(report.perplexity, expected, 1e-5 * expected);
  EXPECT_EQ(report.chunks, kChunks);
  EXPECT_EQ(report.scored_tokens, kChunks * (kContext - 1));
  EXPECT_EQ(report.tokens, kChunks * kContext + 500);

  tokens.resize(kChunks * kContext);  // the rest after the last chunk does not matter
  EXPECT_EQ(value(), report.perplexity);
  // The order of the chunks does not matter.
  std::rotate(tokens.begin(), tokens.begin() + kContext, tokens.end());
  EXPECT_NEAR(value(), report.perplexity, 1e-12 * report.perplexity);
}

TEST_F(Perplexity, AgreesWithRecordedLogits) {
  for (const std::string name : kOracles) {
    SCOPED_TRACE(name);
    NMM_TEST_DATA_OR_SKIP(weights, "oracles/hf-tiny/" + name + ".safetensors");
    const Oracle oracle = load_oracle(weights.parent_path(), name, backend_);
    const auto json = nlohmann::json::parse(oracle.logits_json);
    const auto sequences = json["sequences"].get<std::vector<std::vector<TokenId>>>();
    const auto logits = json["logits"].get<std::vector<std::vector<std::vector<double>>>>();
    long double sum = 0.0L;
    std::vector<TokenId> tokens;
    for (size_t s = 0; s < sequences.size(); ++s) {
      ASSERT_EQ(sequences[s].size(), 16u);
      tokens.insert(tokens.end(), sequences[s].begin(), sequences[s].end());
      for (size_t i = 1; i < 16; ++i) {
        sum += naive_loss(logits[s][i - 1], std::ssize(logits[s][i - 1]), sequences[s][i]);
      }
    }
    const double expected = exp_mean(sum, std::ssize(sequences) * 15);
    const auto report = value_of(perplexity(oracle.transformer, tokens, 16, silent_));
    EXPECT_NEAR(report.perplexity, expected, 1e-6 * expected);
  }
}

TEST_F(Perplexity, RefusesInputThatCannotBeScored) {
  const model::Transformer transformer = random_model(7);
  const auto message = [&](const std::vector<TokenId>& tokens, int64_t context) {
    return message_of(perplexity(transformer, tokens, context, silent_));
  };
  const std::vector<TokenId> tokens = random_tokens(63, config_.vocab_size, 8);
  const std::string range =
      "context: expected 2 ... 64 (the model's max_position_embeddings), found ";
  EXPECT_EQ(message(tokens, 1), range + "1");
  EXPECT_EQ(message(tokens, -5), range + "-5");
  EXPECT_EQ(message(tokens, 65), range + "65");
  EXPECT_EQ(message(tokens, 64),
            "the text has 63 tokens, fewer than the 64 of one chunk: give a longer text or a "
            "smaller context");
  EXPECT_TRUE(has(message({}, 2), "has 0 tokens"));
  EXPECT_TRUE(has(message({1, 2, 19, 3}, 2), "found 19 at position 2"));
  EXPECT_TRUE(has(message({1, 2, 3, -1}, 2), "found -1 at position 3"));
  EXPECT_EQ(message(tokens, 63), "no error");
}

TEST_F(Perplexity, ALossThatIsNotFiniteIsReportedWithItsChunk) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    model::TestTensors tensors = model::random_tensors(config_, 9);
    // In the embedding of token 18.
    tensors["model.embed_tokens.weight"].values[18 * config_.hidden_size] = bad;
    const model::Transformer transformer = load(tensors);
    std::vector<TokenId> tokens = random_tokens(40, 18, 10);
    ASSERT_EQ(message_of(perplexity(transformer, tokens, 10, silent_)), "no error");
    tokens[24] = 18;  // in chunk 3; the prediction after this token is lost
    const std::string message = message_of(perplexity(transformer, tokens, 10, silent_));
    EXPECT_TRUE(has(message, "chunk 3 of 4")) << message;
    EXPECT_TRUE(has(message, "position 5")) << message;
  }
}

TEST_F(Perplexity, AnInterruptReportsFinishedChunks) {
  model::TestTensors tensors = model::random_tensors(config_, 11);
  for (float& value : tensors.at("lm_head.weight").values) value = 0.0f;
  const model::Transformer transformer = load(tensors);
  const std::vector<TokenId> tokens = random_tokens(40, config_.vocab_size, 12);
  int calls = 0;
  backend_.on_attention = [&] { set_interrupted(++calls == 2); };
  const auto report = perplexity(transformer, tokens, 10, silent_);
  EXPECT_EQ(message_of(report), "interrupted: 2 of 4 chunks done, perplexity so far 19");
  EXPECT_EQ(report.error().kind, Error::Kind::kInterrupted);
  EXPECT_EQ(message_of(perplexity(transformer, tokens, 10, silent_)),  // the interrupt is still set
            "interrupted: 0 of 4 chunks done");
}

TEST(PerplexityReport, DefaultContextIsThePublishedOneIfItFits) {
  io::ModelConfig config;
  config.max_position_embeddings = 512;
  EXPECT_EQ(default_context(config), 512);
  config.max_position_embeddings = 131072;
  EXPECT_EQ(default_context(config), 2048);
}

TEST(PerplexityReport, JsonHasTheValuesOfTheReport) {
  PerplexityReport report;
  report.device = "cpu";
  report.perplexity = 7.5;
  report.standard_error = 0.5;
  report.context = 16;
  report.tokens = 100;
  report.chunks = 6;
  report.scored_tokens = 90;
  report.seconds = 0.25;
  const nlohmann::ordered_json expected = {
      {"device", "cpu"}, {"perplexity", 7.5}, {"perplexity_stderr", 0.5}, {"context", 16},
      {"tokens", 100},   {"chunks", 6},       {"scored_tokens", 90},      {"seconds", 0.25}};
  EXPECT_EQ(perplexity_json(report), expected);
}

}  // namespace
}  // namespace neuronmm::eval
