#include "serve/grammar/grammar_cache.h"

namespace neuronmm::grammar {

std::shared_ptr<TokenMasks> GrammarCache::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

// The grammar is made without the lock, so that a large schema does not delay other requests. Two
// requests may therefore make the same grammar, and the first one is kept.
Result<std::shared_ptr<TokenMasks>> GrammarCache::get(const std::string& key, const Make& make) {
  if (auto known = find(key)) return known;
  NMM_ASSIGN(std::shared_ptr<TokenMasks> made, make());
  const std::scoped_lock lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second->second;
  entries_.emplace_front(key, made);
  by_key_[key] = entries_.begin();
  if (std::ssize(entries_) > capacity_) {
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return made;
}

}  // namespace neuronmm::grammar
