#pragma once
// The keys and values of a draft model in the server. They have a memory of their own with as many
// positions as the model's. Requests with a common prefix share blocks of it, too. If it is full, a
// sequence gets no proposals until there is room again.

#include <memory>
#include <string>

#include "model/draft_model.h"
#include "serve/engine/kv_memory.h"

namespace neuronmm::serve {

// Makes caches of the draft from a KvMemory.
class DraftMemory : public model::DraftCaches {
 public:
  // As the constructor of KvMemory. With `reserve`, all blocks are allocated now.
  DraftMemory(const model::Transformer& draft, int64_t blocks, int64_t capacity_tokens,
              bool reserve);
  std::unique_ptr<model::DraftCache> make(const std::string& salt) override;
  int64_t release_unused() override { return memory_.release_unused(); }

 private:
  KvMemory memory_;
};

}  // namespace neuronmm::serve
