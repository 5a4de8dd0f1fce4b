#pragma once
// Complete blocks of keys and values, found by the tokens that they were computed from. A block
// depends on all tokens before it: its entry is found by the entry of the block before it and by
// its own tokens, which are compared, not only their hash. So no request reads what another one's
// tokens made, whatever hashes somebody finds.

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>

#include "ops/kv_cache.h"
#include "text/token_id.h"

namespace neuronmm::serve {

using text::TokenId;

class PrefixCache {
 public:
  struct Entry;

  // The tokens are those of one block, ops::kKvBlock. The first block of a sequence has no parent;
  // its salt keeps sequences apart.
  Entry* find(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens);
  // The entry of these tokens: one that is there, or a new one that holds `block`.
  Entry& insert(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens,
                const ops::KvBlock& block);

  // A sequence's, from its first block on, and back from its last.
  void use(Entry& entry);
  void release(Entry& entry);
  // Takes out the block that nobody has used for longest; there must be one. Whoever used a block
  // used its parent until later, so that no entry is left whose parent is gone.
  ops::KvBlock evict();
  int64_t unused() const { return std::ssize(unused_); }

 private:
  struct Key {
    uint64_t parent;  // the number of its entry; 0: none
    std::string salt;
    std::array<TokenId, ops::kKvBlock> tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  static Key key_of(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens);

  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::list<Entry*> used_, unused_;  // each entry is in one; the least recently used first
  uint64_t last_number_ = 0;
};

struct PrefixCache::Entry {
  ops::KvBlock block;
  uint64_t number = 0;
  const Key* key = nullptr;
  int64_t users = 0;
  std::list<Entry*>::iterator place = {};  // in the list of those that are used, or are not
};

}  // namespace neuronmm::serve
