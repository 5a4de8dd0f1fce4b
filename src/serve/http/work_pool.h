#pragma once
// A few threads for work that would block the thread of the sockets too long: reading JSON,
// applying chat templates, tokenizing and compiling grammars.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace neuronmm::serve {

// Runs functions on its threads in the order in which they were posted.
class WorkPool {
 public:
  explicit WorkPool(int threads);
  ~WorkPool();  // drops waiting work and waits for running work
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Runs `work` on a thread of the pool. `work` must not throw.
  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace neuronmm::serve
