#pragma once
// Passes the result of work on a thread of the pool (work_pool.h) to a connection, which waits for
// it on the thread of the sockets. Only connection.h includes this file.

#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <boost/asio.hpp>

namespace neuronmm::serve {

// The value that the work has returned, or the exception that it threw.
template <typename Value>
struct PoolResult {
  std::optional<Value> value;
  std::exception_ptr thrown;
  std::atomic<bool> is_done = false;
};

// Runs `wake_up` on the thread of the sockets. If there is no memory for that, the connection's
// on_tick() wakes it.
template <typename Executor, typename WakeUp>
void post_or_leave_to_tick(const Executor& executor, WakeUp wake_up) {
  try {
    boost::asio::post(executor, std::move(wake_up));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace neuronmm::serve
