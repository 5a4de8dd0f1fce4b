#pragma once
// Ends waiting in calls that cannot be asked whether they still wait for somebody, such as MPI's.
// connect() and the communicator's destructor use it.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace neuronmm::parallel {

// Calls `on_timeout` in a thread of its own if the object still exists after `seconds`.
class Deadline {
 public:
  Deadline(double seconds, std::function<void()> on_timeout)
      : thread_([this, seconds, on_timeout = std::move(on_timeout)] {
          std::unique_lock lock(mutex_);
          const std::chrono::duration<double> time(seconds);
          if (!met_.wait_for(lock, time, [this] { return is_met_; })) on_timeout();
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      is_met_ = true;
    }
    met_.notify_one();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  bool is_met_ = false;
  std::thread thread_;  // last, because the thread uses the other members
};

}  // namespace neuronmm::parallel
