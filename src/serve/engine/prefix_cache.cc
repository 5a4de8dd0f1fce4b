#include "serve/engine/prefix_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/result.h"

namespace neuronmm::serve {
namespace {

int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

bool begins_with(std::span<const TokenId> tokens, std::span<const TokenId> first) {
  return common_tokens(first, tokens) == std::ssize(first);
}

}  // namespace

PrefixCache::Key PrefixCache::key_of(const Entry* parent, const std::string& salt,
                                     std::span<const TokenId> tokens) {
  NMM_CHECK(std::ssize(tokens) <= ops::kKvBlock);
  return {parent ? parent->number : 0, parent ? "" : salt, {tokens.begin(), tokens.end()}};
}

// In an ordered sequence, the neighbours of the place where the tokens belong have the longest
// beginning in common with them.
PrefixCache::Match PrefixCache::find(const Entry* parent, const std::string& salt,
                                     std::span<const TokenId> tokens) {
  const Key key = key_of(parent, salt, tokens);
  Match best;
  const auto consider = [&](Entries::iterator place) {
    if (!place->first.is_sibling_of(key)) return;
    const int64_t common = common_tokens(place->first.tokens, tokens);
    if (common > best.common) best = {&place->second, common};
  };
  const auto next = entries_.lower_bound(key);
  if (next != entries_.end()) consider(next);
  if (next != entries_.begin()) consider(std::prev(next));
  return best;
}

PrefixCache::Inserted PrefixCache::insert(const Entry* parent, const std::string& salt,
                                          std::span<const TokenId> tokens,
                                          const ops::KvBlock& block) {
  std::list<Entry*> position = {nullptr};  // made first, so that nothing changes if memory runs out
  Key key = key_of(parent, salt, tokens);
  const auto next = entries_.lower_bound(key);
  if (next != entries_.end() && next->first.is_sibling_of(key) &&
      begins_with(next->first.tokens, tokens))
    return {&next->second};
  const auto place = entries_.try_emplace(next, std::move(key));
  Entry& entry = place->second;
  entry.block = block;
  entry.number = ++last_number_;
  entry.key = &place->first;
  entry.list_position = position.begin();
  position.front() = &entry;
  unused_.splice(unused_.end(), position);
  return {&entry, remove_prefix_of(place)};
}

// Removes the entry whose tokens are the beginning of the new entry's tokens. Only the neighbour
// can be one: earlier insertions have removed all others.
ops::KvBlock PrefixCache::remove_prefix_of(Entries::iterator place) {
  if (place == entries_.begin()) return nullptr;
  const auto& [key, before] = *std::prev(place);
  const bool superfluous = key.is_sibling_of(place->first) && before.users == 0 &&
                           begins_with(place->first.tokens, key.tokens);
  return superfluous ? remove(std::prev(place)->second) : nullptr;
}

void PrefixCache::add_user(Entry& entry) {
  if (entry.users++ == 0) used_.splice(used_.end(), unused_, entry.list_position);
}

void PrefixCache::remove_user(Entry& entry) {
  if (--entry.users == 0) unused_.splice(unused_.end(), used_, entry.list_position);
}

ops::KvBlock PrefixCache::evict() {
  NMM_CHECK(!unused_.empty());
  return remove(*unused_.front());
}

ops::KvBlock PrefixCache::remove(Entry& entry) {
  NMM_CHECK(entry.users == 0);
  unused_.erase(entry.list_position);
  ops::KvBlock block = std::move(entry.block);
  entries_.erase(entries_.find(*entry.key));
  return block;
}

}  // namespace neuronmm::serve
