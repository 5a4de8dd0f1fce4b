#pragma once
// A cache of the grammars of recent requests, so that equal schemas are compiled only once. The
// compiler of structured outputs (serve/http) uses it. The least recently used grammars are dropped
// when the cache is full.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/grammar/token_masks.h"

namespace neuronmm::grammar {

// All functions may be called from any thread.
class GrammarCache {
 public:
  using Make = std::function<Result<std::shared_ptr<TokenMasks>>()>;

  // Keeps at most `capacity` grammars, which must be at least one. When a grammar is added, others
  // are dropped until all together take at most `max_bytes`.
  explicit GrammarCache(int64_t capacity, int64_t max_bytes = int64_t{1} << 40)
      : capacity_(capacity), max_bytes_(max_bytes) {}

  // Returns the grammar of the key, the text that it is made from. If the cache does not have it,
  // calls make() for the client `owner`. Errors are returned and not kept.
  Result<std::shared_ptr<TokenMasks>> get(const std::string& key, const std::string& owner,
                                          const Make& make);
  // Returns the grammar of the key if the cache has it, else null.
  std::shared_ptr<TokenMasks> find(const std::string& key);
  // Returns the bytes of the compiled grammars that were made for the client and that the cache or
  // an answer still uses.
  int64_t bytes_of(const std::string& owner);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<TokenMasks>>;

  struct Owned {
    std::string owner;
    std::weak_ptr<TokenMasks> masks;
  };

  int64_t bytes() const;

  const int64_t capacity_, max_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // in order of their last use, the latest first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::vector<Owned> in_use_;  // all grammars that were made, without those that were destroyed
};

}  // namespace neuronmm::grammar
