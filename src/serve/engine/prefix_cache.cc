#include "serve/engine/prefix_cache.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace neuronmm::serve {

size_t PrefixCache::KeyHash::operator()(const Key& key) const {
  const std::string_view tokens(reinterpret_cast<const char*>(key.tokens.data()),
                                sizeof(key.tokens));
  constexpr size_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio, an odd number
  size_t hash = std::hash<std::string_view>()(tokens);
  hash = hash * kOdd + key.parent;
  return hash * kOdd + std::hash<std::string>()(key.salt);
}

PrefixCache::Key PrefixCache::key_of(const Entry* parent, const std::string& salt,
                                     std::span<const TokenId> tokens) {
  NMM_CHECK(std::ssize(tokens) == ops::kKvBlock);
  Key key = {parent ? parent->number : 0, parent ? "" : salt, {}};
  std::ranges::copy(tokens, key.tokens.begin());
  return key;
}

PrefixCache::Entry* PrefixCache::find(const Entry* parent, const std::string& salt,
                                      std::span<const TokenId> tokens) {
  const auto found = entries_.find(key_of(parent, salt, tokens));
  return found == entries_.end() ? nullptr : &found->second;
}

PrefixCache::Entry& PrefixCache::insert(const Entry* parent, const std::string& salt,
                                        std::span<const TokenId> tokens,
                                        const ops::KvBlock& block) {
  std::list<Entry*> position = {nullptr};  // made first, so that nothing changes if memory runs out
  const auto [place, is_new] = entries_.try_emplace(key_of(parent, salt, tokens));
  Entry& entry = place->second;
  if (is_new) {
    entry.block = block;
    entry.number = ++last_number_;
    entry.key = &place->first;
    entry.list_position = position.begin();
    position.front() = &entry;
    unused_.splice(unused_.end(), position);
  }
  return entry;
}

void PrefixCache::add_user(Entry& entry) {
  if (entry.users++ == 0) used_.splice(used_.end(), unused_, entry.list_position);
}

void PrefixCache::remove_user(Entry& entry) {
  if (--entry.users == 0) unused_.splice(unused_.end(), used_, entry.list_position);
}

ops::KvBlock PrefixCache::evict() {
  NMM_CHECK(!unused_.empty());
  Entry& entry = *unused_.front();
  unused_.pop_front();
  ops::KvBlock block = std::move(entry.block);
  entries_.erase(entries_.find(*entry.key));
  return block;
}

}  // namespace neuronmm::serve
