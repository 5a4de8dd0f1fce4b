// Compares tiny models of all families with transformers (family_golden.h): their logits, those of
// a beginning of the text, and those of the text one token after the other.

#include <span>

#include "model/backends.h"
#include "model/family_golden.h"

namespace neuronmm::model {
namespace {

class Families : public OnBackend {
 protected:
  Result<Transformer> load(const FamilyGolden& golden) const {
    const ModelFolder folder;
    golden.write(folder);
    return Transformer::load(folder.path(), *backend);
  }
};
NMM_ON_ALL_BACKENDS(Families);

TEST_P(Families, LogitsAreThoseOfTransformers) {
  ASSERT_GT(family_goldens().size(), 30u);
  for (const auto& file : family_goldens()) {
    SCOPED_TRACE(file.filename().string());
    const FamilyGolden golden(file);
    const auto transformer = load(golden);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    const std::vector<float> logits = decoded_floats(golden.json.at("logits").get<std::string>());
    golden.expect_logits(*transformer, golden.tokens, logits);
    constexpr int kPrefix = 12;
    const std::vector<TokenId> prefix(golden.tokens.begin(), golden.tokens.begin() + kPrefix);
    const size_t vocab = logits.size() / golden.tokens.size();
    std::vector<float> expected(logits.begin(), logits.begin() + kPrefix * vocab);
    if (golden.json.contains("prefix_logits"))
      expected = decoded_floats(golden.json.at("prefix_logits").get<std::string>());
    golden.expect_logits(*transformer, prefix, expected);
  }
}

// Where transformers itself computes the same logits step by step.
TEST_P(Families, StepsGiveTheLogitsOfTheWholeText) {
  for (const auto& file : family_goldens()) {
    SCOPED_TRACE(file.filename().string());
    const FamilyGolden golden(file);
    if (!golden.json.at("steps_agree").get<bool>()) continue;
    const auto transformer = load(golden);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    const Matrix whole = all_logits(*transformer, golden.tokens);
    const auto cache = transformer->make_cache(std::ssize(golden.tokens), DType::kF32);
    for (int64_t i = 0; i < std::ssize(golden.tokens); ++i) {
      const Matrix step =
          transformer->forward(std::span(golden.tokens).subspan(static_cast<size_t>(i), 1), *cache,
                               Transformer::Logits::kAll);
      for (int64_t j = 0; j < whole.columns(); ++j)
        ASSERT_NEAR(step.row(0)[j], whole.row(i)[j], 1e-4f * (1.0f + std::abs(whole.row(i)[j])))
            << "token " << i;
    }
  }
}

}  // namespace
}  // namespace neuronmm::model
