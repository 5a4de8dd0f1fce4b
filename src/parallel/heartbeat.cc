#include "parallel/heartbeat.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include <fmt/format.h>
#include <signal.h>

namespace neuronmm::parallel {
namespace {

// Four signs per second, and at least eight within the time limit, so that a thread that is late
// does not count as lost.
constexpr double kPeriod_s = 0.25;
constexpr double kSignsWithinTimeout = 8;

}  // namespace

Heartbeat::Heartbeat(MPI_Comm comm, double timeout_s, std::vector<std::string> peers,
                     std::vector<pid_t> pids)
    : comm_(comm),
      timeout_(timeout_s),
      period_(std::min(kPeriod_s, timeout_s / kSignsWithinTimeout)) {
  last_tick_ = Clock::now();
  for (size_t i = 0; i < peers.size(); ++i) {
    peers_.push_back({.name = std::move(peers[i]), .pid = pids[i], .last_heard = last_tick_});
  }
  MPI_Comm_rank(comm_, &process_);
  thread_ = std::thread([this] { run(); });
}

Heartbeat::~Heartbeat() { stop(); }

void Heartbeat::check() const {
  if (is_lost_.load(std::memory_order_relaxed)) throw ProcessLost(lost());
}

std::string Heartbeat::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::vector<int64_t> Heartbeat::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::vector<int64_t> sent;
  for (const Peer& peer : peers_) sent.push_back(peer.sent);
  return sent;
}

void Heartbeat::receive_remaining(const std::vector<int64_t>& sent_to_this) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    while (peers_[i].received < sent_to_this[i]) receive_one(static_cast<int>(i), true);
    MPI_Wait(&peers_[i].sending, MPI_STATUS_IGNORE);
  }
}

void Heartbeat::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !is_lost_) {
    lock.unlock();
    std::string lost;
    try {
      tick(Clock::now());
      lost = find_lost_peer(Clock::now()).value_or("");
    } catch (const ProcessLost& error) {
      lost = error.what();
    } catch (const std::bad_alloc&) {  // the next tick looks again
    }
    lock.lock();
    if (!lost.empty()) {
      lost_ = lost;
      is_lost_ = true;
    }
    wake_.wait_for(lock, period_, [this] { return stopping_; });
  }
}

// If this process itself was paused (by a debugger, or a laptop's sleep), it could not hear the
// others. Their time then begins anew.
void Heartbeat::tick(Clock::time_point now) {
  if (now - last_tick_ > timeout_ / 2) {
    for (Peer& peer : peers_) peer.last_heard = now;
  }
  last_tick_ = now;
  send();
  for (size_t i = 0; i < peers_.size(); ++i) {
    while (static_cast<int>(i) != process_ && receive_one(static_cast<int>(i), false)) {
      peers_[i].last_heard = now;
    }
  }
}

// No new sign is sent while the previous one is still on its way, because a stalled link must not
// fill up.
void Heartbeat::send() {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (static_cast<int>(i) == process_) continue;
    const std::lock_guard lock(mpi_lock());
    int done = 1;
    check_mpi(MPI_Test(&peers_[i].sending, &done, MPI_STATUS_IGNORE));
    if (done == 0) continue;
    check_mpi(
        MPI_Isend(&sign_, 1, MPI_BYTE, static_cast<int>(i), kLifeTag, comm_, &peers_[i].sending));
    ++peers_[i].sent;
  }
}

bool Heartbeat::receive_one(int from, bool wait) {
  const std::lock_guard lock(mpi_lock());
  int has_message = 1;
  if (!wait) check_mpi(MPI_Iprobe(from, kLifeTag, comm_, &has_message, MPI_STATUS_IGNORE));
  if (has_message == 0) return false;
  char sign = 0;
  check_mpi(MPI_Recv(&sign, 1, MPI_BYTE, from, kLifeTag, comm_, MPI_STATUS_IGNORE));
  ++peers_[static_cast<size_t>(from)].received;
  return true;
}

std::optional<std::string> Heartbeat::find_lost_peer(Clock::time_point now) const {
  for (size_t i = 0; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    if (static_cast<int>(i) == process_) continue;
    if (peer.pid > 0 && kill(peer.pid, 0) != 0 && errno == ESRCH) {
      return fmt::format("{} (pid {}) has ended", peer.name, peer.pid);
    }
    if (now - peer.last_heard <= timeout_) continue;
    return fmt::format("{} has given no sign of life for {:.3g} s: it hangs, or its link is lost",
                       peer.name, timeout_.count());
  }
  return std::nullopt;
}

}  // namespace neuronmm::parallel
