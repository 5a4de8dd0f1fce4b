#pragma once
// The sequences that wait for the engine or run in it, and the shares that clients have of it. The
// scheduler (scheduler.h) is its only user.
//
// The queue counts for each client the tokens that the engine has spent on it. The client with the
// smallest count is admitted first, so that a client with many requests does not delay a client
// with one. This is the virtual token counter of Sheng et al., "Fairness in Serving Large Language
// Models" (OSDI 2024). A client that comes back begins with the smallest count of those that are
// there, because unused time cannot be saved up.

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "serve/engine/engine.h"

namespace neuronmm::serve {

struct Job;
struct Sequence;

// The order of sequences: smaller priorities first, then older requests.
struct SequenceKey {
  int64_t priority;
  RequestId request;
  int64_t choice;
  auto operator<=>(const SequenceKey&) const = default;
};

using SequencesByKey = std::map<SequenceKey, Sequence*>;

// The share of the engine that one client has.
struct ClientShare {
  int64_t requests = 0;  // the number of requests that have not ended
  int64_t served_tokens = 0;
  SequencesByKey waiting, running;
};

// The resource that the engine has too little of for another sequence.
enum class Shortage { kSlots, kMemory };

class FairQueue {
 public:
  // The cost of a generated token compared with a token of a prompt, as in the paper above.
  static constexpr int64_t kGeneratedCost = 2;

  // Counts a request of the job's client from its arrival to its end.
  void enter(Job& job);
  void leave(const Job& job);
  // Adds tokens that the engine spends on the job's client.
  static void charge(Job& job, int64_t tokens);

  // Moves a sequence into the queue, into the running sequences, or out of both. If there is no
  // memory, wait() and run() throw std::bad_alloc and change nothing. A sequence that runs can
  // always wait, and remove() never fails.
  void wait(Sequence& sequence);
  void run(Sequence& sequence);
  void remove(Sequence& sequence);

  const SequencesByKey& running() const { return running_; }
  // Returns the sequence that is admitted next, or null if none waits. Requests with the smallest
  // priority come first, and among them those of the client that was served least.
  Sequence* next() const;
  // Returns a running sequence of the client that has the most, if that client would have more than
  // the client of `wanting` even after giving it up. Returns null if nobody has that much, or if
  // its sequences have a smaller priority value than `wanting`.
  Sequence* find_surplus(const Sequence& wanting, Shortage shortage) const;

 private:
  std::map<std::string, ClientShare> clients_;  // those that have requests
  SequencesByKey running_;
};

}  // namespace neuronmm::serve
