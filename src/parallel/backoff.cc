#include "parallel/backoff.h"

#include <algorithm>
#include <thread>

namespace neuronmm::parallel {
namespace {

using std::chrono::microseconds;

// Assumed. An exchange through shared memory takes 1 to 3 us; one over a fast network takes 10 to
// 30 us.
constexpr microseconds kSpin{20};
// Assumed: about a time slice of the scheduler. A process that loses its core for one time slice
// then finds this one awake.
constexpr microseconds kYield{2000};
// A sleep lasts a sixteenth of the wait so far, so it prolongs a wait by no more than that.
constexpr microseconds kLongestSleep{1000};

}  // namespace

void Backoff::pause() {
  if (++checks_ % 16 != 0 && !sleeping_) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    return;
  }
  const auto waited = std::chrono::duration_cast<microseconds>(Clock::now() - start_);
  if (waited < kSpin) return;
  sleeping_ = waited >= kYield;
  if (!sleeping_) return std::this_thread::yield();
  std::this_thread::sleep_for(std::min(kLongestSleep, waited / 16));
}

}  // namespace neuronmm::parallel
