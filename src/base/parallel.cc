#include "base/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/cpu_quota.h"
#include "base/memory_domains.h"

namespace neuronmm {

constinit thread_local LoopRecorder* internal::loop_recorder = nullptr;

namespace {

// The limit of --threads; smaller than kLoop, whose low bits count threads.
constexpr int kMaxThreads = 1024;
constexpr uint32_t kLoop = 1u << 12;         // added to the state whenever a loop opens or closes
constexpr uint32_t kInsideMask = kLoop - 1;  // the number of workers inside the loop

constexpr size_t kCacheLine = 64;

// How often a thread looks for a change before it sleeps. Measured on Zen 4: a pause takes about 20
// ns and a yield 0.5 us. A thread therefore spins for 40 us and then offers its core to others for
// 100 us. Waking from sleep takes about 50 us.
constexpr int kPauses = 2000;
constexpr int kYields = 200;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The team that runs the process's parallel loops, one at a time. Each thread begins with a share
// of neighbouring iterations and then takes iterations that others have not begun. So a worker that
// has not arrived is never waited for. From loop to loop a thread works on the same rows, which are
// in its caches. The calling thread takes part as thread 0.
class ThreadTeam {
 public:
  // The team is never destroyed: its threads sleep until the process ends.
  static ThreadTeam& instance() {
    static ThreadTeam* const team = new ThreadTeam;
    return *team;
  }

  // Returns false if the team is busy for somebody else. Otherwise it opens the loop by making the
  // loop number in the state odd, works on the loop, closes it, and waits until all workers that
  // entered have left. Only then may the loop's data change.
  bool try_run(int threads, int64_t count, internal::LoopBody body, const void* context) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    start_workers(threads - 1);
    loop_ = {threads, count, body, context};
    distribute_iterations();
    state_.fetch_add(kLoop, std::memory_order_release);  // open
    state_.notify_all();
    take_iterations(0);
    uint32_t state = state_.fetch_add(kLoop, std::memory_order_acquire) + kLoop;  // closed
    while ((state & kInsideMask) != 0) {
      wait_for_change(state);
      state = state_.load(std::memory_order_acquire);
    }
    const std::exception_ptr thrown = std::exchange(exception_, nullptr);
    busy_.store(false, std::memory_order_release);
    if (thrown) std::rethrow_exception(thrown);
    return true;
  }

 private:
  // The iterations that one thread begins with. Any thread may take the next of them.
  struct alignas(kCacheLine) Share {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;

    int64_t take() { return next.fetch_add(1, std::memory_order_relaxed); }
  };
  struct Loop {
    int threads = 0;
    int64_t count = 0;
    internal::LoopBody body = nullptr;
    const void* context = nullptr;
  };

  static uint32_t loop_number(uint32_t state) { return state / kLoop; }
  static bool is_open(uint32_t state) { return loop_number(state) % 2 == 1; }

  void start_workers(int count) {
    try {
      for (; workers_ < count; ++workers_) {
        std::thread([this, thread = workers_ + 1] { work(thread); }).detach();
      }
    } catch (...) {  // the system has no more threads; a later loop may ask for fewer
      busy_.store(false, std::memory_order_release);
      throw;
    }
  }

  void work(int thread) {
    uint32_t last_loop =
        0;  // the number of the loop that this worker was in last; loop 0 is closed
    while (true) {
      uint32_t state = state_.load(std::memory_order_acquire);
      if (!is_open(state) || loop_number(state) == last_loop) {
        wait_for_change(state);
        continue;
      }
      if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
      last_loop = loop_number(state);
      if (thread < loop_.threads) take_iterations(thread);
      const uint32_t left = state_.fetch_sub(1, std::memory_order_release) - 1;
      if ((left & kInsideMask) == 0 && !is_open(left)) state_.notify_all();
    }
  }

  // Copies the loop, because it may be reused as soon as this thread has left.
  void take_iterations(int thread) {
    const Loop loop = loop_;
    internal::follow_binding(thread);
    try {
      for (int offset = 0; offset < loop.threads; ++offset) {
        Share& share = shares_[static_cast<size_t>((thread + offset) % loop.threads)];
        for (int64_t i = share.take(); i < share.end; i = share.take()) {
          loop.body(loop.context, i, thread);
        }
      }
      // Memory ran out: the caller of the loop is told, and no further iteration begins.
    } catch (...) {
      for (int i = 0; i < loop.threads; ++i) {
        Share& share = shares_[static_cast<size_t>(i)];
        share.next.store(share.end, std::memory_order_relaxed);
      }
      const std::lock_guard lock(exception_mutex_);
      if (!exception_) exception_ = std::current_exception();
    }
  }
  void distribute_iterations() {
    for (int i = 0; i < loop_.threads; ++i) {
      Share& share = shares_[static_cast<size_t>(i)];
      share.next.store(loop_.count * i / loop_.threads, std::memory_order_relaxed);
      share.end = loop_.count * (i + 1) / loop_.threads;
    }
  }

  // Waits until the state differs from `seen`. It first spins, because the next loop of a forward
  // pass usually comes soon, then yields the core to others, then sleeps.
  void wait_for_change(uint32_t seen) {
    for (int i = 0; i < kPauses + kYields; ++i) {
      if (state_.load(std::memory_order_relaxed) != seen) return;
      if (i < kPauses) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    state_.wait(seen, std::memory_order_relaxed);
  }

  // The loop number, which is odd while workers may enter, and below kLoop the number of workers
  // inside. Both are in one word, so that no worker enters a loop that has just been closed.
  alignas(kCacheLine) std::atomic<uint32_t> state_ = 0;
  alignas(kCacheLine) std::atomic<bool> busy_ = false;
  // Written before the loop opens, and read by the threads inside.
  Loop loop_;
  std::array<Share, kMaxThreads> shares_;
  int workers_ = 0;  // the number of workers started
  std::mutex exception_mutex_;
  std::exception_ptr exception_;  // thrown by an iteration of the loop
};

// Returns $OMP_NUM_THREADS, which people set for all programs, or as many threads as can compute at
// once. Too little memory to read the quota must not end a program here.
int default_threads() {
  if (const char* given = std::getenv("OMP_NUM_THREADS")) {
    const int threads = std::atoi(given);
    if (threads > 0) return std::min(threads, kMaxThreads);
  }
  try {
    return std::min(threads_for_process(), kMaxThreads);
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

thread_local const std::atomic<bool>* stop_loops = nullptr;

std::atomic<int>& thread_count() {
  static std::atomic<int> count = default_threads();
  return count;
}

}  // namespace

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void set_num_threads(int threads) {
  thread_count().store(std::min(threads, kMaxThreads), std::memory_order_relaxed);
}

StoppableLoops::StoppableLoops(const std::atomic<bool>& stop) { stop_loops = &stop; }
StoppableLoops::~StoppableLoops() { stop_loops = nullptr; }
UnstoppableLoops::UnstoppableLoops() : stop_(std::exchange(stop_loops, nullptr)) {}
UnstoppableLoops::~UnstoppableLoops() { stop_loops = stop_; }

RecordLoops::RecordLoops(LoopRecorder& recorder) { internal::loop_recorder = &recorder; }
RecordLoops::~RecordLoops() { internal::loop_recorder = nullptr; }

namespace {

// Runs the iterations in the order of the threads that begin with them.
void record_loop(int64_t count, internal::LoopBody body, const void* context,
                 const LoopFacts& facts) {
  LoopRecorder& recorder = *std::exchange(internal::loop_recorder, nullptr);
  recorder.begin_loop(count, facts);
  const int64_t threads = num_threads();
  for (int64_t thread = 0; thread < threads; ++thread) {
    for (int64_t i = count * thread / threads; i < count * (thread + 1) / threads; ++i) {
      recorder.begin_iteration(i, static_cast<int>(thread));
      body(context, i, static_cast<int>(thread));
    }
  }
  recorder.end_loop();
  internal::loop_recorder = &recorder;
}

}  // namespace

// Loops of one iteration, loops on one thread, and loops inside other loops run on the calling
// thread.
void internal::run_loop(int64_t count, LoopBody body, const void* context, const LoopFacts& facts) {
  if (loop_recorder != nullptr) return record_loop(count, body, context, facts);
  if (stop_loops != nullptr && stop_loops->load(std::memory_order_relaxed)) throw LoopsStopped();
  const int threads = num_threads();
  if (count > 1 && threads > 1 && ThreadTeam::instance().try_run(threads, count, body, context)) {
    return;
  }
  for (int64_t i = 0; i < count; ++i) body(context, i, 0);
}

}  // namespace neuronmm
