#pragma once
// A few threads for work that would block the thread of the sockets too long: reading JSON,
// applying chat templates, tokenizing and compiling grammars.
//
// The pool shares its threads among the clients. The client whose work runs on the fewest threads
// comes next, and among equal ones the client whose last turn was longest ago. No client has more
// than Shape::threads_of_client threads, and of these only one for large bodies. A client's small
// bodies thus do not wait for its large ones, and other clients wait for neither.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace neuronmm::serve {

// Runs functions on its threads.
class WorkPool {
 public:
  // Assumed. A single client has as many threads as a machine with two cores can use, and a second
  // client finds as many.
  static constexpr int kThreads = 4, kThreadsOfClient = 2;
  // A body of at least this many bytes is large. Assumed: its work takes some milliseconds.
  static constexpr size_t kLargeBytes = 64 * 1024;

  struct Shape {
    int threads = kThreads, threads_of_client = kThreadsOfClient;
    int niceness = 0;  // of the threads, compared with that of the process
  };

  WorkPool() : WorkPool(Shape()) {}
  explicit WorkPool(const Shape& shape);
  ~WorkPool();  // drops waiting work and waits for running work
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Runs `work` on a thread of the pool. `work` reads a body of so many bytes and must not throw.
  // Throws std::bad_alloc if there is no memory to queue it.
  void post(const std::string& client, size_t body_bytes, std::function<void()> work);

 private:
  struct Work {
    uint64_t number;  // in the order of arrival
    std::function<void()> run;
  };
  struct Client {
    std::deque<Work> small, large;
    int running = 0, large_running = 0;
    uint64_t last_turn = 0;  // grows with each work that is begun
    bool idle() const { return running == 0 && small.empty() && large.empty(); }
    // Returns the queue to take work from, or null if there is none to begin.
    std::deque<Work>* next(int most_running);
  };
  using Clients = std::map<std::string, Client>;

  void run();
  void stop();
  Clients::iterator next_client();

  const Shape shape_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Clients clients_;  // those with work
  uint64_t last_number_ = 0, turns_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// The pools of a server. Large output formats take up to some seconds each, and other requests must
// not notice them. So they have threads of their own, one for a client, with a low priority: the
// kernel gives such a thread about a thirtieth of a core that another thread wants, too.
struct WorkPools {
  WorkPool requests;
  WorkPool large_formats{{.threads = 2, .threads_of_client = 1, .niceness = 15}};
};

}  // namespace neuronmm::serve
