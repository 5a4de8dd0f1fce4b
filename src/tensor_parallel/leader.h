#pragma once
// Process 0's side of the orders: numbers for models and for the blocks of its caches.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/forward_pass.h"
#include "parallel/communicator.h"
#include "tensor_parallel/order.h"

namespace neuronmm::tensor_parallel {

class Leader {
 public:
  explicit Leader(parallel::Communicator& communicator) : communicator_(communicator) {}

  // Has the others open the folder, too. Returns the number that orders name the model by. Error:
  // the folder is another one in another process.
  Result<int64_t> open(const std::string& folder);
  // Nothing happens if the others are lost.
  void close(int64_t model);
  // Has the others begin the pass that this process is about to begin. Makes the blocks that the
  // new tokens will go to.
  void begin_pass(int64_t model, std::span<const model::SequenceTokens> batch);
  // Has the others copy their parts of a block.
  void copy_block(int64_t model, const ops::KvBlock& from, const ops::KvBlock& to);

 private:
  int64_t number_of(const ops::KvBlock& block);
  std::vector<int64_t> freed();  // blocks that are gone since the last call

  // A block's memory may be another's after it: who holds it is what tells them apart.
  struct Known {
    std::weak_ptr<uint32_t[]> block;
    int64_t number;
  };
  parallel::Communicator& communicator_;
  std::map<const uint32_t*, Known> blocks_;
  std::vector<int64_t> replaced_;
  int64_t next_block_ = 0, next_model_ = 0;
};

// What a folder's config and weights are known by, for a comparison between processes: in words.
std::string folder_identity(const std::string& folder);

}  // namespace neuronmm::tensor_parallel
