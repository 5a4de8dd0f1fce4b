#pragma once
// Parallel loops on one team of threads, started once and kept for the whole process.
//
// A thread of the team that waits for work spins for some tens of microseconds, then gives its core
// away, then sleeps. A forward pass is many short loops, one after the other, so its threads are
// still awake for the next one; and a waiting thread never holds a core that others need. A loop
// does not wait for a thread that has not come yet (its core may be busy): who is there does the
// work. Each thread begins with the same part of a loop's iterations, so that what it wrote in one
// loop is in its caches in the next.

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace neuronmm {

// How many threads a loop may use. At the start: OMP_NUM_THREADS, or as many as there are cores.
int num_threads();
// For all loops from now on, 1,024 at most. Not while a loop runs.
void set_num_threads(int threads);

// A way out of work that asks interrupted() too seldom, for a process that goes on without it:
// while one lives, the next loop that this thread begins once `stop` is set throws LoopsStopped.
// Nothing of that work is kept.
class StoppableLoops {
 public:
  explicit StoppableLoops(const std::atomic<bool>& stop);
  ~StoppableLoops();
  StoppableLoops(const StoppableLoops&) = delete;
  StoppableLoops& operator=(const StoppableLoops&) = delete;
};
// Work within it that must not be left half done: while one lives, this thread's loops do not stop.
class WholeLoops {
 public:
  WholeLoops();
  ~WholeLoops();
  WholeLoops(const WholeLoops&) = delete;
  WholeLoops& operator=(const WholeLoops&) = delete;

 private:
  const std::atomic<bool>* const stop_;  // of the StoppableLoops around it
};
struct LoopsStopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

namespace internal {
using LoopBody = void (*)(const void* context, int64_t i, int thread);
void run_loop(int64_t count, LoopBody body, const void* context);
}  // namespace internal

// body(i), or body(i, thread), for i in [0, count), in any order, on all threads; 0 <= thread <
// num_threads(), and no two iterations run on the same one at the same time. Iterations must not
// touch the same data. What an iteration throws (memory may run out) ends the loop and is thrown
// here; so is the system's error when no thread can be started. A loop that begins while the team
// is at work, for the loop around it or for another caller, runs on its own thread alone, as thread
// 0.
template <typename Body>
void parallel_for(int64_t count, const Body& body) {
  internal::run_loop(
      count,
      [](const void* context, int64_t i, int thread) {
        const Body& run = *static_cast<const Body*>(context);
        if constexpr (std::is_invocable_v<const Body&, int64_t, int>) {
          run(i, thread);
        } else {
          run(i);
        }
      },
      &body);
}

// body(first, last) on one contiguous share of [0, count) per thread.
template <typename Body>
void parallel_ranges(int64_t count, const Body& body) {
  const int64_t threads = num_threads();
  const int64_t shares = count < threads ? count : threads;
  parallel_for(shares, [&](int64_t i) { body(count * i / shares, count * (i + 1) / shares); });
}

}  // namespace neuronmm
