#include "serve/engine/draft_memory.h"

#include <algorithm>
#include <new>

namespace neuronmm::serve {
namespace {

class BlockCache : public model::DraftCache {
 public:
  BlockCache(KvMemory& memory, const std::string& salt) : memory_(memory, salt) {}
  // Another request that begins with the same tokens can use what the draft has computed, even if
  // the last of the tokens were not accepted.
  ~BlockCache() override {
    // After a pass that failed, the cache may have tokens that `held` lacks.
    cache().set_length(std::min(memory_.length(), std::ssize(held)));
    try {
      memory_.share_blocks(held);
      memory_.keep_last_block(held);
    } catch (const std::bad_alloc&) {  // the blocks are only given back
    }
  }

  ops::KvCache& cache() final { return memory_.cache(); }
  bool prepare(std::span<const TokenId> tokens, int64_t positions) override {
    if (memory_.cache().blocks().empty()) {
      if (!memory_.reserve_with_prefix(tokens)) return false;
    } else {
      memory_.share_blocks(tokens);
    }
    return memory_.reserve(positions);
  }

 private:
  SequenceMemory memory_;
};

}  // namespace

DraftMemory::DraftMemory(const model::Transformer& draft, int64_t blocks, int64_t capacity_tokens,
                         bool reserve)
    : memory_(draft, blocks, capacity_tokens) {
  if (reserve) memory_.allocate_all();
}

std::unique_ptr<model::DraftCache> DraftMemory::make(const std::string& salt) {
  return std::make_unique<BlockCache>(memory_, salt);
}

}  // namespace neuronmm::serve
