// This test runs real trained models whose text is known, so that a mistake anywhere in the
// transformer is noticed.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "model/backends.h"
#include "model/generate.h"
#include "model/llama2c.h"
#include "test_data.h"

namespace neuronmm::model {
namespace {

constexpr TokenId kBos = 1;

Result<Generation> tell_story(const Llama2c& model, const ops::Backend& backend) {
  NMM_ASSIGN(const auto transformer, load_tiny(model.config, model.tensors, backend));
  return generate(transformer, std::vector<TokenId>{kBos},
                  {.max_new_tokens = 240, .stop_tokens = {kBos}});
}

class Stories : public OnBackend {};
NMM_ON_ALL_BACKENDS(Stories);

TEST_P(Stories, Stories260KTellsItsKnownStory) {
  NMM_TEST_DATA_OR_SKIP(data, "models/stories260K");
  const Llama2c model = read_llama2c(data / "stories260K.bin");
  const auto generation = tell_story(model, *backend);
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  EXPECT_GE(generation->tokens.size(), 200u);
  const std::string text =
      Llama2cTokenizer(data / "tok512.bin", model.config.vocab_size).decode(generation->tokens);
  const std::string known =
      "Once upon a time, there was a little girl named Lily. She loved to play outside in the "
      "park. One day, she saw a big, red ball. She wanted to play with it, but it was too high.";
  EXPECT_EQ(text.substr(0, known.size()), known);

  if (GetParam() == Device::kReference) return;
  const auto reference = tell_story(model, *ops::make_reference_backend());
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  EXPECT_EQ(generation->tokens, reference->tokens);
}

// Returns BabyLlama's ids of characters. Its 361 tokens are 3 special ones, 256 bytes, and the 102
// characters of the same stories in the order of stories260K's tokenizer. That tokenizer has no
// piece for the plain space, which comes first.
std::map<char, TokenId> baby_characters(const std::filesystem::path& tok512) {
  const Llama2cTokenizer tokenizer(tok512, 512);
  const std::vector<std::string>& pieces = tokenizer.pieces();
  std::map<char, TokenId> ids = {{'\n', 3 + '\n'}, {' ', 259}};
  TokenId id = 260;
  for (auto piece = std::find(pieces.begin() + 259, pieces.end(), "e"); piece != pieces.end();
       ++piece, ++id) {
    if (piece->size() == 1) ids[piece->front()] = id;
  }
  EXPECT_EQ(id, 361);
  return ids;
}

double mean_loss(const Matrix& logits, const std::vector<TokenId>& tokens) {
  double loss = 0.0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const float* row = logits.row(static_cast<int64_t>(i));
    double total = 0.0;
    for (int64_t j = 0; j < logits.columns(); ++j) total += std::exp(static_cast<double>(row[j]));
    loss += std::log(total) - static_cast<double>(row[tokens[i + 1]]);
  }
  return loss / static_cast<double>(tokens.size() - 1);
}

TEST_P(Stories, BabyLlamaPredictsTheCharactersOfAStory) {
  NMM_TEST_DATA_OR_SKIP(data, "models/babyllama");
  NMM_TEST_DATA_OR_SKIP(tok512, "models/stories260K/tok512.bin");
  NMM_TEST_DATA_OR_SKIP(stories, "text/tinystories_sample_2M.txt");
  const Llama2c model = read_llama2c(data / "model5000.bin");
  const auto transformer = load_tiny(model.config, model.tensors, *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;

  const std::map<char, TokenId> ids = baby_characters(tok512);
  std::ifstream file(stories);
  std::vector<TokenId> tokens = {kBos};
  for (char c; tokens.size() < 256 && file.get(c);) tokens.push_back(ids.at(c));
  // Guessing would cost log(361) = 5.9 nats, and letter frequencies 2.9. A trained model of this
  // size needs about 0.9.
  EXPECT_LT(mean_loss(all_logits(*transformer, tokens), tokens), 1.2);

  const std::string known = "Once upon a time, there was a little girl named Lily. She loved to";
  const auto generation = generate(*transformer, std::vector<TokenId>{kBos},
                                   {.max_new_tokens = static_cast<int64_t>(known.size()) + 1});
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  std::vector<TokenId> expected = {ids.at(' ')};
  for (char c : known) expected.push_back(ids.at(c));
  EXPECT_EQ(generation->tokens, expected);
}

}  // namespace
}  // namespace neuronmm::model
