#pragma once
// Orders from process 0 to the other processes, and their encoding as bytes. leader.h makes orders,
// follow.h carries them out.

#include <cstdint>
#include <string>
#include <vector>

#include "ops/wanted_logits.h"
#include "parallel/communicator.h"

namespace neuronmm::tensor_parallel {

// The next tokens of a sequence and its cache, whose blocks are named by the numbers of leader.h.
struct SequenceOrder {
  std::vector<int32_t> tokens;
  std::vector<int64_t> blocks = {};
  int64_t length = 0;  // tokens in the cache before the new ones
  int64_t capacity_tokens = 0;
  int32_t dtype = 0, logits = 0;
  bool long_rope = false;  // see ops::KvCache
  std::vector<ops::WantedLogits> wanted = {};
};

// One order. Only the fields that its kind names are used.
struct Order {
  enum class Kind : int32_t {
    kBackend,  // make the backend that `text` describes; models opened later run on it
    kOpen,     // open the folder `text` as number `model`
    kClose,    // close `model`
    kPass,     // compute `sequences` with `model`
    kCopy,     // copy block `from` to block `to`
    kEnd,      // end follow()
  };
  Kind kind = Kind::kEnd;
  int64_t model = 0, from = 0, to = 0;
  std::string text = {};
  std::vector<int64_t> freed = {};  // blocks that no cache uses any more
  std::vector<SequenceOrder> sequences = {};
};

// Returns the order as bytes.
parallel::Communicator::Bytes encode(const Order& order);
// Decodes bytes that encode() made.
Order decode(const parallel::Communicator::Bytes& bytes);

// Sends an order from process 0 to all others, which call receive() at the same time.
void send(parallel::Communicator& communicator, const Order& order);
Order receive(parallel::Communicator& communicator);

}  // namespace neuronmm::tensor_parallel
