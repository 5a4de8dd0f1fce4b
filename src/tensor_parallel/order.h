#pragma once
// What process 0 tells the others to do, and the bytes that it is sent as.

#include <cstdint>
#include <string>
#include <vector>

#include "ops/wanted_logits.h"
#include "parallel/communicator.h"

namespace neuronmm::tensor_parallel {

// The next tokens of a sequence, and which blocks its cache has: numbers that process 0 gives out.
struct SequenceOrder {
  std::vector<int32_t> tokens;
  std::vector<int64_t> blocks = {};
  int64_t length = 0;  // of the cache, before them
  int64_t capacity_tokens = 0;
  int32_t dtype = 0, logits = 0;
  std::vector<ops::WantedLogits> wanted = {};
};

struct Order {
  enum class Kind : int32_t {
    kBackend,  // make the backend that `text` describes; models opened later run on it
    kOpen,     // open the folder `text` as number `model`
    kClose,
    kPass,  // compute `sequences` with `model`
    kCopy,  // copy block `from` to block `to`
    kEnd,
  };
  Kind kind = Kind::kEnd;
  int64_t model = 0, from = 0, to = 0;
  std::string text = {};
  std::vector<int64_t> freed = {};  // blocks that no cache has any more
  std::vector<SequenceOrder> sequences = {};
};

parallel::Communicator::Bytes encode(const Order& order);
// Of bytes that encode() made.
Order decode(const parallel::Communicator::Bytes& bytes);

// Process 0's side; the others are in receive().
void send(parallel::Communicator& communicator, const Order& order);
Order receive(parallel::Communicator& communicator);

}  // namespace neuronmm::tensor_parallel
