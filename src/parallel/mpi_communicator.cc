// The communicator of processes that an MPI launcher has started.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parallel/connect.h"
#include "parallel/heartbeat.h"
#include "parallel/message_link.h"
#include "parallel/mpi_calls.h"
#include "parallel/shared_link.h"
#include "parallel/watchdog.h"

namespace neuronmm::parallel {
namespace {

// The time in which MPI_Abort tells the launcher that all processes are to end. Assumed; Open MPI
// kills after one second.
constexpr std::chrono::milliseconds kAbortTime{250};

// The first message of every process to all others.
struct ProcessInfo {
  char host[MPI_MAX_PROCESSOR_NAME] = {};
  pid_t pid = 0;
  ino_t pid_namespace = 0;  // the namespace of `pid`; containers on one host have their own
  int32_t host_leader = 0;  // the lowest process on its host
};

ino_t pid_namespace() {
  struct stat status = {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// The processes on this host, which can share memory with this one.
class Host {
 public:
  explicit Host(MPI_Comm all) {
    check_mpi(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm_));
    MPI_Comm_size(comm_, &processes_);
  }
  int processes() const { return processes_; }
  int leader(int process) const {
    int lowest = process;
    check_mpi(MPI_Allreduce(&process, &lowest, 1, MPI_INT, MPI_MIN, comm_));
    return lowest;
  }
  // Allocates `bytes` of zeroed memory per process, which all processes see and which begins at a
  // cache line.
  void allocate(int64_t bytes) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    // MPI then gives pages of its own to the part of every process.
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    void* own = nullptr;
    const int64_t all = bytes + int64_t{kCacheLine};  // room to align the first byte
    check_mpi(MPI_Win_allocate_shared(all, 1, info, comm_, static_cast<void*>(&own), &window_));
    MPI_Info_free(&info);
    std::memset(own, 0, static_cast<size_t>(all));
    check_mpi(MPI_Barrier(comm_));
  }
  std::byte* memory(int process) const {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* base = nullptr;
    check_mpi(MPI_Win_shared_query(window_, process, &bytes, &unit, static_cast<void*>(&base)));
    // Open MPI may begin a part anywhere. All processes map the memory at page boundaries, so that
    // all of them skip the same bytes.
    const uintptr_t past = reinterpret_cast<uintptr_t>(base) % kCacheLine;
    return static_cast<std::byte*>(base) + (past > 0 ? kCacheLine - past : 0);
  }
  void free() {
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
    MPI_Comm_free(&comm_);
  }

 private:
  static constexpr size_t kCacheLine = 64;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int processes_ = 1;
};

std::vector<int> all_processes(int count) {
  std::vector<int> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, int process, int processes, const LinkOptions& options)
      : Communicator(process, processes),
        comm_(comm),
        host_(comm),
        all_(all_processes(processes)),
        options_(options),
        messages_(comm, process, processes, [this] { heartbeat_->check(); }) {
    start_heartbeat(options.timeout_s);
    if (is_one_host() && options.shared_memory) start_sharing();
  }
  ~MpiCommunicator() override;

  int processes_of_host() const override { return host_.processes(); }
  std::string link() const override { return shared_ ? "shared memory" : "messages"; }

  void sum(std::span<float> values, Wire wire) override {
    count(shared_ ? shared_->sum(values) : messages_.sum(values, wire));
  }
  void sum(std::span<double> values) override {
    count(shared_ ? shared_->sum(values) : messages_.sum(values));
  }
  void all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                  std::span<float> all, Wire wire) override {
    NMM_CHECK(std::ssize(counts) == processes() &&
              counts[static_cast<size_t>(process())] == std::ssize(mine) &&
              std::accumulate(counts.begin(), counts.end(), int64_t{0}) == std::ssize(all));
    count(shared_ ? shared_->all_gather(mine, counts, all)
                  : messages_.all_gather(mine, counts, all, wire));
  }
  void broadcast(Bytes& bytes) override {
    constexpr int kFirst[] = {0};
    auto all = is_first() ? exchange(bytes, all_, {}) : exchange({}, {}, kFirst);
    if (!is_first()) bytes = std::move(all.front());
  }
  std::vector<Bytes> gather(std::span<const std::byte> mine) override {
    constexpr int kFirst[] = {0};
    auto all = is_first() ? exchange(mine, {}, all_) : exchange(mine, kFirst, {});
    if (!is_first()) all.clear();
    return all;
  }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return exchange(mine, all_, all_);
  }
  void barrier() override {
    if (shared_) {
      count(0);
      return shared_->barrier();
    }
    const std::byte sign[1] = {};
    exchange(sign, all_, all_);
  }
  std::string lost() const override { return heartbeat_->lost(); }
  // If MPI_Abort does not return, the thread ends this process.
  void end_all(int code) override {
    try {
      std::thread([code] {
        std::this_thread::sleep_for(kAbortTime);
        std::_Exit(code);
      }).detach();
    } catch (const std::exception&) {  // the system has no memory for the thread
    }
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  // Counts one collective and the bytes of its values. Bytes in shared memory and bytes in messages
  // are counted separately.
  void count(int64_t bytes) {
    ++traffic_.collectives;
    (shared_ ? traffic_.bytes_shared : traffic_.bytes_sent) += bytes;
  }
  std::vector<Bytes> exchange(std::span<const std::byte> mine, std::span<const int> to,
                              std::span<const int> from) {
    std::vector<Bytes> all(static_cast<size_t>(processes()));
    count(shared_ ? shared_->exchange(mine, from, all) : messages_.exchange(mine, to, from, all));
    return all;
  }
  void start_heartbeat(double timeout_s);
  void start_sharing();

  const MPI_Comm comm_;
  Host host_;
  const std::vector<int> all_;
  const LinkOptions options_;
  std::optional<Heartbeat> heartbeat_;
  MessageLink messages_;
  std::optional<SharedLink> shared_;
};

// Tells the heartbeat which processes it can watch by their pid: those on this host, except
// processes in another pid namespace.
void MpiCommunicator::start_heartbeat(double timeout_s) {
  ProcessInfo own;
  int length = 0;
  check_mpi(MPI_Get_processor_name(own.host, &length));
  own.pid = getpid();
  own.pid_namespace = pid_namespace();
  own.host_leader = host_.leader(process());
  std::vector<ProcessInfo> all(static_cast<size_t>(processes()));
  check_mpi(MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, comm_));
  std::vector<std::string> names;
  std::vector<pid_t> pids;
  for (int i = 0; i < processes(); ++i) {
    const ProcessInfo& other = all[static_cast<size_t>(i)];
    names.push_back(fmt::format("process {} of {} on {}", i, processes(), other.host));
    const bool visible = other.host_leader == own.host_leader &&
                         other.pid_namespace == own.pid_namespace &&
                         (kill(other.pid, 0) == 0 || errno == EPERM);
    pids.push_back(visible ? other.pid : 0);
  }
  heartbeat_.emplace(comm_, timeout_s, std::move(names), std::move(pids));
}

void MpiCommunicator::start_sharing() {
  std::vector<std::byte*> memory;
  {
    const std::lock_guard lock(mpi_lock());
    host_.allocate(SharedRounds::bytes_of_process());
    for (const int i : all_) memory.push_back(host_.memory(i));
  }
  SharedRounds rounds(
      process(), processes(), [memory](int i) { return memory[static_cast<size_t>(i)]; },
      [this] { heartbeat_->check(); });
  shared_.emplace(process(), processes(), std::move(rounds));
}

// All processes meet before they disconnect. Otherwise the first to leave would seem lost to the
// others.
MpiCommunicator::~MpiCommunicator() {
  try {
    barrier();
    const Watchdog watchdog(options_.timeout_s, [this] {
      options_.on_fatal("a process was lost as all had done their work");
      std::_Exit(EXIT_FAILURE);
    });
    const std::vector<int64_t> sent = heartbeat_->stop();
    std::vector<int64_t> sent_to_this(sent.size());
    check_mpi(
        MPI_Alltoall(sent.data(), 1, MPI_INT64_T, sent_to_this.data(), 1, MPI_INT64_T, comm_));
    heartbeat_->receive_remaining(sent_to_this);
    host_.free();
    MPI_Finalize();
  } catch (const ProcessLost& error) {
    options_.on_fatal(error.what());
    end_all(EXIT_FAILURE);
  }
}

}  // namespace

Result<std::unique_ptr<Communicator>> connect(const LinkOptions& options) {
  const Watchdog watchdog(options.timeout_s, [&options] {
    options.on_fatal(
        fmt::format("the {} processes have not met within {:.3g} s (--link-timeout): one of them "
                    "was lost as it started, or starts later than that",
                    launched_processes(), options.timeout_s));
    std::_Exit(EXIT_FAILURE);
  });
  int provided = MPI_THREAD_SINGLE, process = 0, processes = 1;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
    return fail("MPI does not start; `mpirun -n 2 hostname` shows whether it works at all");
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    return fail(
        "this MPI library has no MPI_THREAD_SERIALIZED: expected Open MPI or MPICH as Debian has "
        "it");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  try {
    return std::unique_ptr<Communicator>(
        std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, process, processes, options));
  } catch (const ProcessLost& error) {
    return fail("{}", error.what());
  }
}

}  // namespace neuronmm::parallel
