#include "serve/grammar/grammar_cache.h"

namespace neuronmm::grammar {

std::shared_ptr<TokenMasks> GrammarCache::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

int64_t GrammarCache::bytes() const {
  int64_t sum = 0;
  for (const auto& [key, masks] : entries_) sum += 2 * std::ssize(key) + masks->bytes();
  return sum;
}

int64_t GrammarCache::bytes_of(const std::string& owner) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(in_use_, [](const Owned& one) { return one.masks.expired(); });
  int64_t sum = 0;
  for (const Owned& one : in_use_) {
    const auto masks = one.masks.lock();
    if (masks != nullptr && one.owner == owner) sum += masks->grammar_bytes();
  }
  return sum;
}

// The grammar is made without the lock, so that a large schema does not delay other requests. Two
// requests may therefore make the same grammar, and the first one is kept.
Result<std::shared_ptr<TokenMasks>> GrammarCache::get(const std::string& key,
                                                      const std::string& owner, const Make& make) {
  if (auto known = find(key)) return known;
  NMM_ASSIGN(std::shared_ptr<TokenMasks> made, make());
  const std::scoped_lock lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second->second;
  in_use_.push_back({owner, made});
  entries_.emplace_front(key, made);
  by_key_[key] = entries_.begin();
  while (entries_.size() > 1 && (std::ssize(entries_) > capacity_ || bytes() > max_bytes_)) {
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return made;
}

}  // namespace neuronmm::grammar
