#pragma once
// Process 0's side of the orders: numbers for models and for the blocks of its caches.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/order.h"

namespace neuronmm::tensor_parallel {

class Leader {
 public:
  explicit Leader(parallel::Communicator& communicator) : communicator_(communicator) {}

  // Error: a folder that is another one in another process.
  Result<std::unique_ptr<ops::Counterparts>> open(const std::string& folder);

  parallel::Communicator& communicator() { return communicator_; }
  int64_t number_of(const ops::KvBlock& block);
  std::vector<int64_t> freed();  // blocks that are gone since the last call

 private:
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
