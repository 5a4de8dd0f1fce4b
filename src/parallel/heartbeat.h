#pragma once
// Signs of life: a thread tells the other processes a few times per second that this one lives, and
// notices which of them have become silent. A process that computes for an hour counts as alive. A
// process that was killed or stopped, or whose machine or cable failed, counts as lost.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/mpi_calls.h"

namespace neuronmm::parallel {

// The thread of one process and what it knows about the others.
class Heartbeat {
 public:
  // `peers` are the names of all processes in messages, such as "process 1 on node7". `pids` has
  // the process id of every process on this host whose end can be seen at once, and 0 for the
  // others.
  Heartbeat(MPI_Comm comm, double timeout_s, std::vector<std::string> peers,
            std::vector<pid_t> pids);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Returns what has happened to a process that is lost, or an empty string.
  std::string lost() const;
  // Throws ProcessLost if a process is lost.
  void check() const;
  // Stops sending signs and returns how many signs each process got from this one. MPI may only end
  // after all signs are received.
  std::vector<int64_t> stop();
  // Receives the signs that are still on their way, given how many each process has sent to this
  // one.
  void receive_remaining(const std::vector<int64_t>& sent_to_this);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string name;
    pid_t pid = 0;
    Clock::time_point last_heard;
    MPI_Request sending = MPI_REQUEST_NULL;
    int64_t sent = 0, received = 0;
  };

  void run();
  void tick(Clock::time_point now);
  void send();
  bool receive_one(int from, bool wait);
  std::optional<std::string> find_lost_peer(Clock::time_point now) const;

  const MPI_Comm comm_;
  const std::chrono::duration<double> timeout_, period_;
  std::vector<Peer> peers_;
  int process_ = 0;
  char sign_ = 0;
  Clock::time_point last_tick_;

  mutable std::mutex mutex_;  // protects the members below
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string lost_;
  std::atomic<bool> is_lost_ = false;
  std::thread thread_;
};

}  // namespace neuronmm::parallel
