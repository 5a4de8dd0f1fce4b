#include "model/prompts.h"

#include <random>
#include <system_error>

namespace neuronmm::apps {
namespace {

// The prompts of the reference system's example run.
const std::vector<std::string> kPrompts = {"I believe the meaning of life is",
                                           "The color of the sky is"};
constexpr int64_t kRandomPromptTokens = 8;  // about as many tokens as kPrompts have

// Returns prompts for a model without a tokenizer. The ids are the same in every run.
std::vector<PromptTokens> random_prompts(int64_t vocab_size) {
  std::mt19937_64 random(0);
  std::vector<PromptTokens> prompts(kPrompts.size(), PromptTokens(kRandomPromptTokens));
  for (PromptTokens& prompt : prompts) {
    for (text::TokenId& id : prompt) {
      id = static_cast<text::TokenId>(random() % static_cast<uint64_t>(vocab_size));
    }
  }
  return prompts;
}

}  // namespace

Result<std::vector<PromptTokens>> prompt_tokens(const std::filesystem::path& folder,
                                                const std::vector<std::string>& texts,
                                                int64_t vocab_size) {
  std::error_code ignored;
  if (texts.empty() && !std::filesystem::exists(folder / "tokenizer.json", ignored)) {
    return random_prompts(vocab_size);
  }
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(folder));
  std::vector<PromptTokens> prompts;
  for (const std::string& prompt : texts.empty() ? kPrompts : texts) {
    if (prompt.empty()) return fail("--prompt is empty: nothing to continue");
    NMM_ASSIGN(prompts.emplace_back(), tokenizer.encode(prompt));
  }
  return prompts;
}

}  // namespace neuronmm::apps
