#pragma once
// Signs of life: a thread beside the work tells the other processes a few times per second that
// this one lives, and notices which of them have fallen silent. A process that computes for an hour
// is alive; one that was killed or stopped, or whose machine or cable is gone, is not.

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

class Heartbeat {
 public:
  // `peers`: what messages call every process, "process 1 on node7". `pids`: those of processes on
  // this host whose end can be seen at once, 0 for others.
  Heartbeat(MPI_Comm comm, double timeout_s, std::vector<std::string> peers,
            std::vector<pid_t> pids);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // What has happened to a process that is lost, or nothing.
  std::string lost() const;
  // Throws ProcessLost when a process is lost.
  void check() const;
  // No more signs from here. Those of the others have to be received before MPI may end: how many
  // each of them got from this process.
  std::vector<int64_t> stop();
  void receive_rest(const std::vector<int64_t>& sent_to_this);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string name;
    pid_t pid = 0;
    Clock::time_point heard;
    MPI_Request sending = MPI_REQUEST_NULL;
    int64_t sent = 0, received = 0;
  };

  void run();
  void tick(Clock::time_point now);
  void send();
  bool receive_one(int from, bool wait);
  std::optional<std::string> silent(Clock::time_point now) const;

  const MPI_Comm comm_;
  const std::chrono::duration<double> timeout_, period_;
  std::vector<Peer> peers_;
  int process_ = 0;
  char sign_ = 0;
  Clock::time_point last_tick_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string lost_;
  std::atomic<bool> is_lost_ = false;
  std::thread thread_;
};

}  // namespace neuronmm::parallel
