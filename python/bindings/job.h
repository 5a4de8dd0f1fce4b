#pragma once
// Runs work that takes long on a thread of its own, without the GIL. Only one job runs at a time in
// the whole process, because base/parallel.h has one team of threads and interrupted() is one flag.
// All bindings use it.
//
// Python's signal handlers run while a caller waits. If a handler raises (Ctrl-C), the work is
// asked to end. If it does not end soon, its next parallel loop ends it. If it sits in one long
// call even then, the caller no longer waits for it. The work then ends by itself, unseen, and the
// next job waits for it. To make this safe, work owns everything that it uses and touches no Python
// object.

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

// A piece of work on its own thread.
class Job : public std::enable_shared_from_this<Job> {
 public:
  // Starts `work`. num_threads() is `threads` during the work, or its value at the start of the
  // process if `threads` is 0.
  static std::shared_ptr<Job> start(int threads, std::function<void(Job&)> work);

  // Waits until ready() or until the work is over. The caller holds the GIL, which is released
  // while waiting. ready() is called under the lock of update(). Throws what a signal handler
  // raised.
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
  // Waits until the work is over. Throws what the work threw.
  void wait();

  // Called by the work: makes a change that somebody may wait for.
  template <typename Change>
  void update(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  // Asks the work to end at its next step, or not to begin. Does not wait for it.
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
  bool wanted_ = true;  // guarded by the lock of all jobs (job.cc)
  std::mutex mutex_;    // guards what follows and what update() changes
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr thrown_;
};

// Runs `work`, a copyable function without arguments, and returns its value. Its Error is thrown as
// a Failure.
template <typename Work>
auto run_job(int threads, Work work) {
  const auto result = std::make_shared<std::optional<std::invoke_result_t<Work>>>();
  Job::start(threads, [result, work = std::move(work)](Job&) { result->emplace(work()); })->wait();
  return value_or_throw(std::move(**result));
}

}  // namespace neuronmm::python
