#pragma once
// A cache of complete blocks of keys and values, which are found by the tokens that they were
// computed from. KvMemory (kv_memory.h) owns one and is its only user. The functions are called
// from the engine's thread, and nothing is locked.
//
// A block depends on all tokens before it. Its key is therefore the entry of the block before it
// and the block's own tokens. The tokens themselves are compared, not only their hash, so that a
// request with colliding hashes never reads the keys and values of other tokens.

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>

#include "ops/kv_cache.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::serve {

using text::TokenId;

class PrefixCache {
 public:
  struct Entry;

  // Returns the entry of a block, or null if there is none. `parent` is the entry of the block
  // before it, or null for the first block of a sequence. `tokens` are the ops::kKvBlock tokens of
  // the block; another number of tokens is a programming error (NMM_CHECK). Only a first block is
  // looked up by `salt`: later blocks depend on it through their parents.
  Entry* find(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens);
  // Returns the entry of these tokens. If there is none, makes one that holds `block`, which has no
  // user yet. If there is one, `block` is not taken, and the sequence should use the entry's block.
  Entry& insert(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens,
                const ops::KvBlock& block);

  // Counts a sequence that uses the entry, or that stops to. A sequence must use its blocks from
  // the first to the last and release them from the last to the first. Every remove_user() needs an
  // add_user() before it; nothing checks this.
  void add_user(Entry& entry);
  void remove_user(Entry& entry);
  // Removes the entry that has been unused for the longest time and returns its block. The call is
  // a programming error (NMM_CHECK) if unused() is 0. The entry and pointers to it are then
  // invalid. A parent is released after its children, so no entry loses its parent.
  ops::KvBlock evict();
  // Returns the number of entries that no sequence uses.
  int64_t unused() const { return std::ssize(unused_); }

 private:
  struct Key {
    uint64_t parent;  // the number of the parent's entry, or 0 without a parent
    std::string salt;
    std::array<TokenId, ops::kKvBlock> tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  static Key key_of(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens);

  std::unordered_map<Key, Entry, KeyHash> entries_;
  // Every entry is in one of the lists. `unused_` begins with the entry released first.
  std::list<Entry*> used_, unused_;
  uint64_t last_number_ = 0;
};

struct PrefixCache::Entry {
  ops::KvBlock block;
  uint64_t number = 0;  // identifies the entry in its children's keys and is never given again
  const Key* key = nullptr;
  int64_t users = 0;
  std::list<Entry*>::iterator list_position = {};  // the entry's position in used_ or unused_
};

}  // namespace neuronmm::serve
