#pragma once
// Process 0's side of the orders (order.h). The leader gives numbers to models and to the blocks of
// their caches, by which orders name them, and sends the orders to the other processes.

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

  // Makes the other processes open the folder, too. Returns the model's number in later orders.
  // Error: the path leads to another folder in another process.
  Result<int64_t> open(const std::string& folder);
  // Makes the other processes close the model. Does nothing if they are lost.
  void close(int64_t model);
  // Makes the other processes begin the pass that this process is about to begin. Allocates the
  // blocks for the new tokens first, because the order names them.
  void begin_pass(int64_t model, std::span<const model::SequenceTokens> batch);
  // Makes the other processes copy their parts of a block.
  void copy_block(int64_t model, const ops::KvBlock& from, const ops::KvBlock& to);

 private:
  int64_t number_of(const ops::KvBlock& block);
  std::vector<int64_t> freed();  // returns the blocks freed since the last call

  // A block that process 0 has numbered. The weak pointer tells whether the block still exists,
  // because another block may lie at the same address later.
  struct Known {
    std::weak_ptr<uint32_t[]> block;
    int64_t number;
  };
  parallel::Communicator& communicator_;
  std::map<const uint32_t*, Known> blocks_;
  std::vector<int64_t> replaced_;
  int64_t next_block_ = 0, next_model_ = 0;
};

// Returns a text that identifies a folder's config and weights, so that processes can compare them.
std::string folder_identity(const std::string& folder);

}  // namespace neuronmm::tensor_parallel
