#pragma once
// A cache of blocks of keys and values, which are found by the tokens that they were computed from.
// KvMemory (kv_memory.h) owns one and is its only user. The functions are called from the engine's
// thread, and nothing is locked.
//
// A block depends on all tokens before it. Its key is therefore the entry of the block before it
// and the block's own tokens. A complete block may be shared. A block with fewer tokens is the end
// of a sequence that has left. Whoever needs its tokens, or only the first tokens of any block,
// copies the block. The tokens themselves are compared, not a hash of them, so a request never
// reads the keys and values of other tokens.

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ops/kv_cache.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::serve {

using text::TokenId;

class PrefixCache {
 public:
  struct Entry;
  // The entry that begins like the tokens asked for, and how many of its first tokens are equal to
  // them. Without such an entry the pointer is null.
  struct Match {
    Entry* entry = nullptr;
    int64_t common = 0;
    bool whole_block() const { return common == ops::kKvBlock; }
  };

  // Returns the entry that has the most first tokens in common with `tokens`, which are at most
  // ops::kKvBlock. `parent` is the entry of the block before it, or null for the first block of a
  // sequence. Only a first block is looked up by `salt`: later blocks depend on it through their
  // parents.
  Match find(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens);

  // An entry that insert() found or made.
  struct Inserted {
    Entry* entry;
    // The block of an entry that became superfluous, because the new one begins with its tokens.
    ops::KvBlock replaced = nullptr;
  };
  // Returns the entry of these 1 to ops::kKvBlock tokens. If there is none, makes one that holds
  // `block`, which has no user yet. If there is one, or one that begins with the tokens, `block` is
  // not taken, and the sequence should use the entry's block.
  Inserted insert(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens,
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
  // Removes an entry that no sequence uses and that is no parent, and returns its block.
  ops::KvBlock remove(Entry& entry);
  // Returns the number of entries that no sequence uses.
  int64_t unused() const { return std::ssize(unused_); }

 private:
  // Keys are ordered so that the tokens with the longest common beginning are neighbours.
  struct Key {
    uint64_t parent;  // the number of the parent's entry, or 0 without a parent
    std::string salt;
    std::vector<TokenId> tokens;
    auto operator<=>(const Key&) const = default;
    bool is_sibling_of(const Key& other) const {
      return parent == other.parent && salt == other.salt;
    }
  };
  using Entries = std::map<Key, Entry>;
  static Key key_of(const Entry* parent, const std::string& salt, std::span<const TokenId> tokens);
  ops::KvBlock remove_prefix_of(Entries::iterator place);

  Entries entries_;
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

  bool complete() const { return std::ssize(key->tokens) == ops::kKvBlock; }
};

}  // namespace neuronmm::serve
