#pragma once
// Waiting for another process.

#include <chrono>

namespace neuronmm::parallel {

// pause() between two looks at what is waited for. In a forward pass the others come within
// microseconds, so it spins at first; then it gives its core away, because on an oversubscribed
// machine the other needs it; then it sleeps, ever longer, so that who waits for hours costs
// nothing.
class Patience {
 public:
  void pause();
  // Whether it has waited so long that it is worth asking if the other still lives.
  bool is_long() const { return sleeping_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  int looks_ = 0;
  bool sleeping_ = false;
};

}  // namespace neuronmm::parallel
