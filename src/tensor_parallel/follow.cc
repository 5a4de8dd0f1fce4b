#include "tensor_parallel/follow.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "model/transformer.h"
#include "parallel/agreement.h"
#include "tensor_parallel/leader.h"
#include "tensor_parallel/order.h"

namespace neuronmm::tensor_parallel {
namespace {

class Follower {
 public:
  Follower(parallel::Communicator& communicator, const MakeOwn& make_own, const ShareIt& share)
      : communicator_(communicator), make_own_(make_own), share_(share) {}

  // Carries out one order. Returns false after the last one.
  bool obey(const Order& order) {
    for (const int64_t block : order.freed) blocks_.erase(block);
    switch (order.kind) {
      case Order::Kind::kBackend:
        add_backend(order.text);
        return true;
      case Order::Kind::kOpen:
        open(order.model, order.text);
        return true;
      case Order::Kind::kClose:
        models_.erase(order.model);
        return true;
      case Order::Kind::kPass:
        compute(models_.at(order.model), order);
        return true;
      case Order::Kind::kCopy:
        copy(order);
        return true;
      case Order::Kind::kEnd:
        break;
    }
    return false;
  }

 private:
  struct Block {
    ops::KvBlock memory;
    int64_t words;
  };

  void add_backend(const std::string& settings) {
    auto own = make_own_(settings);
    const Status made = own.ok() ? Status() : own.error();
    if (!parallel::first_error_of_all(communicator_, made).ok()) return;
    backends_.push_back(share_(std::move(own).value()));
  }

  void open(int64_t number, const std::string& folder) {
    const parallel::Fact identity[] = {{folder, folder_identity(folder)}};
    if (!parallel::agree(communicator_, identity).ok()) return;
    auto model = model::Transformer::load(folder, *backends_.back());
    const Status opened = model.ok() ? Status() : model.error();
    if (!parallel::first_error_of_all(communicator_, opened).ok()) return;
    models_.emplace(number, std::move(model).value());
  }

  // The memory of blocks is owned here, although each cache believes that it holds the only
  // reference.
  ops::KvBlock block(int64_t number, const ops::KvCache& cache) {
    auto found = blocks_.find(number);
    if (found == blocks_.end()) {
      found = blocks_.emplace(number, Block{cache.make_block(), cache.block_words()}).first;
    }
    const ops::KvBlock& memory = found->second.memory;
    return {memory.get(), [memory](uint32_t*) {}};
  }

  // Makes a cache of the same blocks as the cache of process 0. The pass needs it, and nothing else
  // does.
  std::unique_ptr<ops::KvCache> cache_of(const model::Transformer& model,
                                         const SequenceOrder& sequence) {
    auto cache = model.make_cache(sequence.capacity_tokens, static_cast<DType>(sequence.dtype));
    for (size_t i = 0; i < sequence.blocks.size(); ++i) {
      cache->set_block(static_cast<int64_t>(i), block(sequence.blocks[i], *cache));
    }
    cache->set_length(sequence.length);
    cache->set_long_rope(sequence.long_rope);
    // Process 0 has chosen the table, and the model of this one must choose the same.
    if (sequence.long_rope) cache->set_expected_tokens(std::numeric_limits<int64_t>::max());
    return cache;
  }

  void compute(const model::Transformer& model, const Order& order) {
    std::vector<std::unique_ptr<ops::KvCache>> caches;
    std::vector<model::SequenceTokens> batch;
    for (const SequenceOrder& sequence : order.sequences) {
      caches.push_back(cache_of(model, sequence));
      batch.push_back({sequence.tokens, caches.back().get(),
                       static_cast<model::Logits>(sequence.logits), sequence.wanted});
    }
    model.predict(batch);
  }

  // A block that no pass has named is still empty, here and in process 0.
  void copy(const Order& order) {
    const auto from = blocks_.find(order.from);
    if (from == blocks_.end()) return;
    auto to = blocks_.find(order.to);
    if (to == blocks_.end()) {
      const auto cache = models_.at(order.model).make_cache(1);
      to = blocks_.emplace(order.to, Block{cache->make_block(), cache->block_words()}).first;
    }
    std::copy_n(from->second.memory.get(), from->second.words, to->second.memory.get());
  }

  parallel::Communicator& communicator_;
  const MakeOwn& make_own_;
  const ShareIt& share_;
  std::vector<std::unique_ptr<ops::Backend>> backends_;
  std::map<int64_t, model::Transformer> models_;
  std::map<int64_t, Block> blocks_;
};

}  // namespace

void follow(parallel::Communicator& communicator, const MakeOwn& make_own, const ShareIt& share) {
  Follower follower(communicator, make_own, share);
  while (follower.obey(receive(communicator))) {
  }
}

}  // namespace neuronmm::tensor_parallel
