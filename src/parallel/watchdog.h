#pragma once
// Ends waiting in calls that cannot be asked whether they still wait for somebody, such as MPI's.
// connect() and the communicator's destructor use it.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace neuronmm::parallel {

// Calls `on_timeout` in a thread of its own if the object still exists after `seconds`. The
// callbacks of MpiCommunicator report the lost process and end the program. The destructor stops
// the watchdog. If `on_timeout` runs already, the destructor waits for it to return.
class Watchdog {
 public:
  Watchdog(double seconds, std::function<void()> on_timeout)
      : thread_([this, seconds, on_timeout = std::move(on_timeout)] {
          std::unique_lock lock(mutex_);
          const std::chrono::duration<double> time(seconds);
          if (!stopped_.wait_for(lock, time, [this] { return is_stopped_; })) on_timeout();
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    stopped_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopped_ = false;
  std::thread thread_;  // last, because the thread uses the other members
};

}  // namespace neuronmm::parallel
