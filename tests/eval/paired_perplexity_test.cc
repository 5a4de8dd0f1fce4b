// This test compares paired perplexities with perplexity() of each model alone, and checks what is
// refused.

#include "eval/paired_perplexity.h"

#include <cmath>
#include <limits>

#include "eval/eval_test.h"
#include "eval/perplexity_json.h"
#include "places.h"

namespace neuronmm::eval {
namespace {

class PairedPerplexityTest : public EvalTest {
 protected:
  PairedPerplexityTest() { config_.max_position_embeddings = 700; }
};

// The chunks have more tokens than a forward call of either function takes.
TEST_F(PairedPerplexityTest, HasTheBitsOfBothSeparatePerplexities) {
  constexpr int64_t kContext = 600;
  const auto dense = random_model(1), other = random_model(2);
  const auto tokens = random_tokens(3 * kContext + 50, config_.vocab_size, 3);
  const auto paired = value_of(paired_perplexity(dense, other, tokens, kContext, silent_));
  const auto alone = value_of(perplexity(other, tokens, kContext, silent_));
  const auto reference = value_of(perplexity(dense, tokens, kContext, silent_));
  EXPECT_EQ(paired.report.perplexity, alone.perplexity);
  EXPECT_EQ(paired.report.standard_error, alone.standard_error);
  EXPECT_EQ(paired.divergence.dense_perplexity, reference.perplexity);
  EXPECT_EQ(paired.report.tokens, 3 * kContext + 50);
  EXPECT_EQ(paired.report.chunks, 3);
  EXPECT_EQ(paired.report.scored_tokens, 3 * (kContext - 1));
  EXPECT_EQ(paired.divergence.tokens, 3 * (kContext - 1));
  EXPECT_EQ(paired.divergence.divergence.samples, 3);
  EXPECT_NEAR(paired.divergence.perplexity_ratio(), alone.perplexity / reference.perplexity, 1e-9);
}

TEST_F(PairedPerplexityTest, AModelDoesNotDifferFromItself) {
  const auto model = random_model(4);
  const auto tokens = random_tokens(64, config_.vocab_size, 5);
  const auto paired = value_of(paired_perplexity(model, model, tokens, 16, silent_));
  EXPECT_EQ(paired.divergence.divergence.value, 0.0);
  EXPECT_EQ(paired.divergence.agreement.value, 1.0);
  EXPECT_EQ(paired.divergence.agreement.standard_error, 0.0);
  EXPECT_EQ(paired.divergence.added_loss.high(), 0.0);
  EXPECT_EQ(paired.divergence.perplexity_ratio(), 1.0);
}

TEST_F(PairedPerplexityTest, RefusesModelsThatCannotBeCompared) {
  const auto dense = random_model(6);
  const auto tokens = random_tokens(64, config_.vocab_size, 7);
  const auto message = [&](const model::Transformer& other, int64_t context) {
    return message_of(paired_perplexity(dense, other, tokens, context, silent_));
  };
  EXPECT_TRUE(has(message(random_model(8), 65), "64 tokens, fewer than the 65"));
  EXPECT_TRUE(has(message(random_model(8), 701), "context: expected 2 ... 700"));
  config_.vocab_size = 21;
  EXPECT_TRUE(has(message(random_model(8), 16), "vocab_size, found 19 and 21"));
  config_.vocab_size = 19;
  config_.max_position_embeddings = 1000;
  const auto longer = random_tokens(800, config_.vocab_size, 7);
  EXPECT_TRUE(has(message_of(paired_perplexity(dense, random_model(8), longer, 800, silent_)),
                  "at most 700 tokens"));
}

TEST_F(PairedPerplexityTest, ALossThatIsNotFiniteIsReportedWithItsChunk) {
  model::TestTensors tensors = model::random_tensors(config_, 9);
  tensors["model.embed_tokens.weight"].values[18 * config_.hidden_size] =
      std::numeric_limits<float>::quiet_NaN();  // in the embedding of token 18
  const auto non_finite = load(tensors), finite = random_model(10);
  std::vector<TokenId> tokens = random_tokens(40, 18, 10);
  tokens[24] = 18;
  for (const auto& [dense, other] :
       {std::pair(&non_finite, &finite), std::pair(&finite, &non_finite)}) {
    const std::string message = message_of(paired_perplexity(*dense, *other, tokens, 10, silent_));
    EXPECT_TRUE(has(message, "chunk 3 of 4")) << message;
    EXPECT_TRUE(has(message, "position 5")) << message;
  }
}

TEST_F(PairedPerplexityTest, AnInterruptReportsFinishedChunks) {
  const auto dense = random_model(11), other = random_model(12);
  const auto tokens = random_tokens(40, config_.vocab_size, 13);
  int calls = 0;
  // In the second chunk's last call.
  backend_.on_attention = [&] { set_interrupted(++calls == 4); };
  const auto paired = paired_perplexity(dense, other, tokens, 10, silent_);
  EXPECT_TRUE(has(message_of(paired), "interrupted: 2 of 4 chunks done, perplexity so far "));
  EXPECT_EQ(paired.error().kind, Error::Kind::kInterrupted);
}

text::Tokenizer tokenizer_with(const std::string& vocabulary, const std::string& merges) {
  return value_of(text::Tokenizer::parse(
      R"({"model": {"type": "BPE", "vocab": )" + vocabulary + R"(, "merges": )" + merges +
          R"(}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
          "decoder": {"type": "ByteLevel"}, "added_tokens": []})",
      "small"));
}

TEST(SameTokens, RefusesAnotherTokenizer) {
  const std::string vocabulary = R"({"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4})";
  const auto one = tokenizer_with(vocabulary, R"(["a b", "b c"])");
  const auto check = [&](const text::Tokenizer& other, const std::string& text) {
    const Status status = check_same_tokens(one, "D", other, "C", text);
    return status.ok() ? std::string("no error") : status.error().message;
  };
  EXPECT_EQ(check(tokenizer_with(vocabulary, R"(["a b", "b c"])"), "abcab"), "no error");
  EXPECT_TRUE(has(check(tokenizer_with(R"({"a": 0, "b": 1, "c": 2})", "[]"), ""),
                  "found 5 tokens in D and 3 in C"));
  EXPECT_TRUE(has(check(tokenizer_with(R"({"a": 0, "c": 1, "b": 2, "ab": 3, "bc": 4})", "[]"), ""),
                  "found token 1, \"b\" in D and \"c\" in C"));
  const auto other_order = tokenizer_with(vocabulary, R"(["b c", "a b"])");
  EXPECT_EQ(check(other_order, "ab"), "no error");  // this text does not show the difference
  EXPECT_TRUE(has(check(other_order, "ababc"), "differently from token 1 on"));
}

TEST(DivergenceJson, HasEveryMeanWithItsInterval) {
  DivergenceSummary summary;
  summary.divergence = {0.5, 0.1, 3};
  summary.agreement = {0.75, 0.0, 3};
  summary.added_loss = {0.25, 0.01, 1};  // a single window has no interval
  summary.dense_perplexity = 8.0;
  const auto json = nlohmann::json::parse(divergence_json(summary).dump());
  EXPECT_EQ(json["kl"], 0.5);
  EXPECT_EQ(json["kl_stderr"], 0.1);
  EXPECT_NEAR(json["kl_interval"][1], 0.5 + 0.43027, 1e-9);
  EXPECT_EQ(json["top1_agreement_interval"][0], 0.75);
  EXPECT_NEAR(json["perplexity_ratio"], std::exp(0.25), 1e-15);
  EXPECT_TRUE(json["perplexity_ratio_interval"][0].is_null());
  EXPECT_EQ(json["reference_perplexity"], 8.0);
}

}  // namespace
}  // namespace neuronmm::eval
