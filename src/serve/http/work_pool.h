#pragma once
// A few threads for work that is too long for the thread of the sockets: reading JSON, filling in
// chat templates, making tokens and grammars.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace neuronmm::serve {

class WorkPool {
 public:
  explicit WorkPool(int threads);
  ~WorkPool();  // what waits is dropped, what runs is waited for
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // `work` catches what it throws.
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
