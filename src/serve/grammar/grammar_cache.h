#pragma once
// Grammars of recent requests, by the text that they were made from.

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

  explicit GrammarCache(int64_t capacity) : capacity_(capacity) {}  // at least one

  // The grammar of the key, made where it is not there. Errors are not kept.
  Result<std::shared_ptr<TokenMasks>> get(const std::string& key, const Make& make);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<TokenMasks>>;

  std::shared_ptr<TokenMasks> find(const std::string& key);

  const int64_t capacity_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one that was asked for last is the first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace neuronmm::grammar
