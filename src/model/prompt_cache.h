#pragma once
// Keys and values that outlive one prompt. The turns of a conversation, or a question asked again,
// begin with the same tokens: these are computed once.

#include <memory>
#include <span>
#include <vector>

#include "model/transformer.h"

namespace neuronmm::model {

class PromptCache {
 public:
  // With room for the model's whole context; memory is taken as the sequence grows.
  explicit PromptCache(const Transformer& transformer);

  // Forgets all that `prompt` does not begin with, and the prompt's last token, whose logits are
  // wanted. The cache then holds a part of the prompt, and what follows is to be run.
  ops::KvCache& reuse(std::span<const TokenId> prompt);
  // `tokens` are the sequence that the cache now holds; it may lack the last ones.
  void remember(std::span<const TokenId> tokens);

 private:
  std::unique_ptr<ops::KvCache> cache_;
  std::vector<TokenId> tokens_;  // as many as the cache holds
};

}  // namespace neuronmm::model
