// This test parses recorded logits and records those of a model.

#include "eval/reference_logits.h"

#include "eval/eval_test.h"

namespace neuronmm::eval {
namespace {

io::ModelConfig vocabulary_of_three() {
  io::ModelConfig config;
  config.vocab_size = 3;
  config.max_position_embeddings = 4;
  return config;
}

TEST(RecordedLogits, AreReadInOrder) {
  const auto reference = value_of(parse_reference_logits(
      R"({"made_by": "a test", "sequences": [[2, 0], [1]],
          "logits": [[[1, 2.5, -3e-1], [4, 5, 6]], [[7, 8, 9]]]})",
      "r.json", vocabulary_of_three()));
  ASSERT_EQ(reference.size(), 2u);
  EXPECT_EQ(reference[0].tokens, (std::vector<TokenId>{2, 0}));
  EXPECT_EQ(reference[0].first_position, 0);
  EXPECT_EQ(reference[0].logits.rows(), 2);
  EXPECT_EQ(reference[0].logits.row(0)[2], -0.3f);
  EXPECT_EQ(reference[0].logits.row(1)[0], 4.0f);
  EXPECT_EQ(reference[1].logits.row(0)[1], 8.0f);
}

TEST(RecordedLogits, ErrorsNameFileAndIndex) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "malformed JSON"},
      {R"({"sequences": [[1]], "logits": [[[1, 2, 3]])", "malformed JSON"},
      {R"({"sequences": [[1]], "logits": [[[1, 2, NaN]]]})", "malformed JSON"},
      {R"({"sequences": [[1]], "logits": [[[1, 2, 1e999]]]})", "malformed JSON"},
      {"[]", "no list \"sequences\""},
      {R"({"sequences": [[1]]})", "no list \"logits\""},
      {R"({"sequences": 1, "logits": []})", "no list \"sequences\""},
      {R"({"sequences": [], "logits": []})", "\"sequences\" is empty"},
      {R"({"sequences": [[1], [2]], "logits": [[[1, 2, 3]]]})", "2 sequences but 1 lists"},
      {R"({"sequences": [[]], "logits": [[]]})", "sequences[0]: expected a list of token ids"},
      {R"({"sequences": [7], "logits": [[]]})", "sequences[0]: expected a list of token ids"},
      {R"({"sequences": [[1, 1, 1, 1, 1]], "logits": [[]]})",
       "sequences[0]: expected at most 4 tokens (the model's max_position_embeddings), found 5"},
      {R"({"sequences": [[0, 3]], "logits": [[]]})",
       "sequences[0][1]: expected a token id below the model's vocab_size 3, found 3"},
      {R"({"sequences": [[-1]], "logits": [[]]})", "sequences[0][0]: expected a token id"},
      {R"({"sequences": [[1.0]], "logits": [[]]})", "sequences[0][0]: expected a token id"},
      {R"({"sequences": [["1"]], "logits": [[]]})", "found a string"},
      {R"({"sequences": [[18446744073709551615]], "logits": [[]]})", "found 18446744073709551615"},
      {R"({"sequences": [[1, 2]], "logits": [[[1, 2, 3]]]})",
       "logits[0]: expected 2 rows, one for each token of its sequence, found 1"},
      {R"({"sequences": [[1]], "logits": [{}]})", "logits[0]: expected 1 rows"},
      {R"({"sequences": [[1], [2]], "logits": [[[1, 2, 3]], [[1, 2]]]})",
       "logits[1][0]: expected 3 numbers (the model's vocab_size), found 2"},
      {R"({"sequences": [[1]], "logits": [[null]]})", "logits[0][0]: expected 3 numbers"},
      {R"({"sequences": [[1]], "logits": [[[1, null, 3]]]})",
       "logits[0][0][1]: expected a number, found a null"},
      {R"({"sequences": [[1]], "logits": [[[1, 2, -1e39]]]})",
       "logits[0][0][2]: expected a number that fits fp32, found -1e+39"},
  };
  for (const auto& [text, part] : cases) {
    SCOPED_TRACE(text);
    const std::string message =
        message_of(parse_reference_logits(text, "r.json", vocabulary_of_three()));
    EXPECT_TRUE(message.starts_with("r.json: ")) << message;
    EXPECT_TRUE(has(message, part)) << message;
  }
}

class RecordLogits : public EvalTest {};

TEST_F(RecordLogits, FollowsTheGreedyContinuation) {
  const model::Transformer transformer = random_model(31);
  const std::vector<std::vector<TokenId>> prompts = {{3}, {1, 18, 4, 4}};
  const auto reference = value_of(record_reference_logits(transformer, prompts, 6, silent_));
  ASSERT_EQ(reference.size(), 2u);
  for (size_t s = 0; s < prompts.size(); ++s) {
    const ReferenceSequence& sequence = reference[s];
    const auto& prompt = prompts[s];
    ASSERT_EQ(sequence.tokens.size(), prompt.size() + 5);
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), sequence.tokens.begin()));
    EXPECT_EQ(sequence.first_position, std::ssize(prompt) - 1);
    ASSERT_EQ(sequence.logits.rows(), 6);
    const Matrix all = model::all_logits(transformer, sequence.tokens);
    for (int64_t i = 0; i < 6; ++i) {
      const float* const row = sequence.logits.row(i);
      const int64_t position = sequence.first_position + i;
      for (int64_t token = 0; token < 19; ++token) {
        EXPECT_NEAR(row[token], all.row(position)[token], 1e-5) << position << " " << token;
      }
      if (i == 5) continue;
      EXPECT_EQ(sequence.tokens[position + 1], std::max_element(row, row + 19) - row) << position;
    }
  }
}

TEST_F(RecordLogits, RefusesPromptsThatDoNotFit) {
  const model::Transformer transformer = random_model(32);
  const auto message = [&](std::vector<std::vector<TokenId>> prompts, int64_t new_tokens) {
    return message_of(record_reference_logits(transformer, prompts, new_tokens, silent_));
  };
  EXPECT_EQ(message({std::vector<TokenId>(60, 1)}, 4), "no error");
  EXPECT_TRUE(has(message({std::vector<TokenId>(60, 1)}, 5), "60 tokens and new_tokens 5"));
  EXPECT_TRUE(has(message({{1}, std::vector<TokenId>(70, 1)}, 4), "prompt 2: its 70 tokens"));
  EXPECT_TRUE(has(message({{1}}, INT64_MAX), "do not fit"));
  EXPECT_TRUE(has(message({{1}}, 0), "new_tokens"));
  EXPECT_TRUE(has(message({{}}, 4), "prompt 1 has no tokens"));
  EXPECT_TRUE(has(message({{19}}, 4), "19"));
  set_interrupted(true);
  EXPECT_EQ(message({{1}}, 4), "interrupted: no logits were recorded");
}

}  // namespace
}  // namespace neuronmm::eval
