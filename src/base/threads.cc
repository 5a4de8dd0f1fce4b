#include "base/threads.h"

#include <exception>
#include <thread>
#include <vector>

namespace neuronmm {

// An exception ends its own task only. All threads are joined first. Then the exception of the task
// with the lowest number is thrown, so that the result does not depend on timing.
void run_on_threads(int64_t count, const std::function<void(int64_t)>& task) {
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(count) + 1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  try {
    for (int64_t i = 0; i < count; ++i) {
      threads.emplace_back([&task, &thrown, i] {
        try {
          task(i);
        } catch (...) {
          thrown[static_cast<size_t>(i)] = std::current_exception();
        }
      });
    }
  } catch (...) {
    thrown.back() = std::current_exception();
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

}  // namespace neuronmm
