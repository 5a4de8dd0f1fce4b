#pragma once
// What a model continues where its logits are recorded or compared.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace neuronmm::apps {

using PromptTokens = std::vector<text::TokenId>;

// `texts` by the folder's tokenizer; without any, the prompts of the reference system's example
// run, or random ids where the folder has no tokenizer.json.
Result<std::vector<PromptTokens>> prompt_tokens(const std::filesystem::path& folder,
                                                const std::vector<std::string>& texts,
                                                int64_t vocab_size);

}  // namespace neuronmm::apps
