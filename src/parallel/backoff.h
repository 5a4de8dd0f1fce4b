#pragma once
// Lets a loop wait for another process without wasting a core: it spins, then yields, then
// sleeps. The links of this folder use it.

#include <chrono>

namespace neuronmm::parallel {

// The state of one wait. pause() is called between two checks of the condition. In a forward pass
// the other processes arrive within microseconds, so pause() spins at first. Then it yields the
// core, which the other process may need on an oversubscribed machine. Then it sleeps for longer
// and longer times, so that a wait of hours costs nothing.
class Backoff {
 public:
  void pause();
  // Returns whether the wait is so long that the caller should check whether the other process
  // still lives.
  bool is_long() const { return sleeping_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  int checks_ = 0;
  bool sleeping_ = false;
};

}  // namespace neuronmm::parallel
