#pragma once
// Parallel loops on one team of threads, which is started once and kept for the whole process. All
// computing code uses them.
//
// A thread that waits for work spins for some tens of microseconds, then yields its core, then
// sleeps. A forward pass consists of many short loops, so its threads are still awake for the next
// one. A waiting thread never blocks a core that others need. A loop does not wait for a thread
// that has not arrived yet, whose core may be busy: the threads that are there do the work. Each
// thread begins with the same part of a loop's iterations, so that data it wrote in one loop is in
// its caches in the next.

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

#include "base/loop_recorder.h"

namespace neuronmm {

// Returns how many threads a loop may use. The default is OMP_NUM_THREADS, or as many threads as
// can compute at once (base/cpu_quota.h).
int num_threads();
// Sets the number of threads for all later loops, at most 1,024. It must not be called while a loop
// runs.
void set_num_threads(int threads);

// Stops work that asks interrupted() too seldom, in a process that continues without that work.
// While an object exists and `stop` is set, the next loop that this thread begins throws
// LoopsStopped. The work's results are lost.
class StoppableLoops {
 public:
  explicit StoppableLoops(const std::atomic<bool>& stop);
  ~StoppableLoops();
  StoppableLoops(const StoppableLoops&) = delete;
  StoppableLoops& operator=(const StoppableLoops&) = delete;
};
// Protects work within a StoppableLoops that must not be left half done. While an object exists,
// this thread's loops do not stop.
class UnstoppableLoops {
 public:
  UnstoppableLoops();
  ~UnstoppableLoops();
  UnstoppableLoops(const UnstoppableLoops&) = delete;
  UnstoppableLoops& operator=(const UnstoppableLoops&) = delete;

 private:
  const std::atomic<bool>* const stop_;  // the flag of the surrounding StoppableLoops
};
// Thrown by a loop that StoppableLoops stops.
struct LoopsStopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

namespace internal {
using LoopBody = void (*)(const void* context, int64_t i, int thread);
void run_loop(int64_t count, LoopBody body, const void* context, const LoopFacts& facts);
}  // namespace internal

// Runs body(i) or body(i, thread) for every i in [0, count), in any order, on all threads. 0 <=
// thread < num_threads(), and two iterations never run on the same thread number at the same time.
// Iterations must not touch the same data.
//
// If an iteration throws (memory may run out), the loop ends and the exception is thrown here. So
// is the system's error if no thread can be started. A loop that begins while the team is busy,
// with a surrounding loop or for another caller, runs on its own thread alone, as thread 0.
//
// A recorder is told `facts`.
template <typename Body>
void parallel_for(int64_t count, const Body& body,
                  const LoopFacts& facts = {CodePlace::current()}) {
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
      &body, facts);
}

// Runs body(first, last) on one contiguous part of [0, count) per thread.
template <typename Body>
void parallel_ranges(int64_t count, const Body& body,
                     const LoopFacts& facts = {CodePlace::current()}) {
  const int64_t threads = num_threads();
  const int64_t shares = count < threads ? count : threads;
  parallel_for(
      shares, [&](int64_t i) { body(count * i / shares, count * (i + 1) / shares); }, facts);
}

}  // namespace neuronmm
