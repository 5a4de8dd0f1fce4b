#pragma once
// A cache of keys and values that outlives one prompt. The turns of a conversation begin with the
// same tokens, which generate() then computes once. `chat` keeps one per conversation.

#include <memory>
#include <span>
#include <vector>

#include "model/transformer.h"

namespace neuronmm::model {

// The key-value cache of one sequence, together with the tokens that it holds. It serves one
// generate() call at a time.
class PromptCache {
 public:
  // Makes an empty cache for up to the model's whole context. Memory is allocated as the sequence
  // grows.
  explicit PromptCache(const Transformer& transformer);

  // Shortens the cache to the longest beginning that it shares with `prompt`, without the prompt's
  // last token, whose logits are needed. The caller then runs the rest of the prompt on the
  // returned cache.
  ops::KvCache& reuse(std::span<const TokenId> prompt);
  // Records which tokens the cache holds. `tokens` is the whole sequence; the cache may lack its
  // last tokens.
  void remember(std::span<const TokenId> tokens);

 private:
  std::unique_ptr<ops::KvCache> cache_;
  std::vector<TokenId> tokens_;  // exactly the tokens that the cache holds
};

}  // namespace neuronmm::model
