#pragma once
// The prompts that a model continues when its logits are recorded or compared, in `check` and
// `export`.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::apps {

using PromptTokens = std::vector<text::TokenId>;

// Returns the token ids of `texts`, encoded with the tokenizer in `folder`. If there are no texts,
// the result is the prompts of the reference system's example run. If the folder has no
// tokenizer.json either, the result is random ids below `vocab_size`, which are the same in every
// run. Errors: an empty text, and a tokenizer that cannot be loaded.
Result<std::vector<PromptTokens>> prompt_tokens(const std::filesystem::path& folder,
                                                const std::vector<std::string>& texts,
                                                int64_t vocab_size);

}  // namespace neuronmm::apps
