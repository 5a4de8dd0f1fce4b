#pragma once
// Work that takes long, beside the interpreter: on a thread of its own, without the GIL, one piece
// at a time in the whole process (base/parallel.h has one team of threads, interrupted() one flag).
//
// Python's signal handlers run while somebody waits. If one raises (Ctrl-C), the work is asked to
// end; then its next parallel loop ends it; and if it sits in one long call even then, it is left
// behind: it ends by itself, unseen, and the next piece of work waits for it. So that this is safe,
// work owns what it uses and touches no Python object.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include <nanobind/nanobind.h>

#include "failure.h"

namespace neuronmm::python {

namespace nb = nanobind;

class Job : public std::enable_shared_from_this<Job> {
 public:
  // `threads` is what num_threads() is during the work; 0: what it was at first.
  static std::shared_ptr<Job> start(int threads, std::function<void(Job&)> work);

  // With the GIL held, which is released meanwhile: until ready(), which is called under the lock
  // of update(), or until the work is over. Throws what a signal handler raised.
  template <typename Ready>
  void wait_until(const Ready& ready) {
    constexpr auto kAskForSignals = std::chrono::milliseconds(50);
    while (!wait_for(kAskForSignals, ready)) {
      if (PyErr_CheckSignals() == 0) continue;
      const nb::python_error raised;
      give_up();
      throw raised;
    }
  }
  // Until the work is over. Throws what it threw.
  void wait();

  // For the work: a change that somebody may wait for.
  template <typename Change>
  void update(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  // Asks the work to end at its next step, or not to begin. Does not wait.
  void interrupt();

 private:
  template <typename Ready>
  bool wait_for(std::chrono::milliseconds time, const Ready& ready) {
    const nb::gil_scoped_release released;
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return done_ || ready(); });
  }
  void give_up();
  void run();
  bool begin();
  void end();

  int threads_ = 0;
  std::function<void(Job&)> work_;
  std::atomic<bool> stop_loops_ = false;
  bool wanted_ = true;  // under the lock of all jobs (job.cc)
  std::mutex mutex_;    // of what follows, and of what update() changes
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr thrown_;
};

// What `work`, a function without arguments that can be copied, gives; its Error is a Failure.
template <typename Work>
auto run_job(int threads, Work work) {
  const auto result = std::make_shared<std::optional<std::invoke_result_t<Work>>>();
  Job::start(threads, [result, work = std::move(work)](Job&) { result->emplace(work()); })->wait();
  return value_or_throw(std::move(**result));
}

}  // namespace neuronmm::python
