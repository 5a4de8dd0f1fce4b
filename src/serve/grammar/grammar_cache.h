#pragma once
// A cache of the grammars of recent requests, so that equal schemas are compiled only once. The
// compiler of structured outputs (serve/http) uses it. The least recently used grammar is dropped
// when the cache is full.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "serve/grammar/token_masks.h"

namespace neuronmm::grammar {

// All functions may be called from any thread.
class GrammarCache {
 public:
  using Make = std::function<Result<std::shared_ptr<TokenMasks>>()>;

  // Keeps at most `capacity` grammars, which must be at least one.
  explicit GrammarCache(int64_t capacity) : capacity_(capacity) {}

  // Returns the grammar of the key, the text that it is made from. If the cache does not have it,
  // calls make(). Errors are returned and not kept.
  Result<std::shared_ptr<TokenMasks>> get(const std::string& key, const Make& make);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<TokenMasks>>;

  std::shared_ptr<TokenMasks> find(const std::string& key);

  const int64_t capacity_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // in order of their last use, the latest first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace neuronmm::grammar
