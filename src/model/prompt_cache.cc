#include "model/prompt_cache.h"

#include <algorithm>

namespace neuronmm::model {

PromptCache::PromptCache(const Transformer& transformer)
    : cache_(transformer.make_cache(transformer.config().max_position_embeddings)) {}

// The tokens are forgotten together with their keys. If the run that follows fails, the cache still
// holds at least the tokens that it claims to hold.
ops::KvCache& PromptCache::reuse(std::span<const TokenId> prompt) {
  const size_t limit = std::min(tokens_.size(), prompt.size() - 1);
  size_t common = 0;
  while (common < limit && tokens_[common] == prompt[common]) ++common;
  tokens_.resize(common);
  cache_->set_length(static_cast<int64_t>(common));
  return *cache_;
}

void PromptCache::remember(std::span<const TokenId> tokens) {
  const auto held = tokens.first(static_cast<size_t>(cache_->length()));
  tokens_.assign(held.begin(), held.end());
}

}  // namespace neuronmm::model
