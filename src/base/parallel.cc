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

constexpr int kMaxThreads = 1024;  // the limit of --threads

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

// The iterations [first, end) of a loop that one of `threads` threads begins with.
struct Range {
  int64_t first, end;
};
Range range_of(int thread, int threads, int64_t count) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

// The team that runs the process's parallel loops, one at a time. Each thread begins with a share
// of neighbouring iterations and then takes iterations that others have not begun. So a worker that
// has not arrived is never waited for. From loop to loop a thread works on the same rows, which are
// in its caches. The calling thread takes part as thread 0.
//
// No two workers write to the same cache line to enter or leave a loop, because on a machine with
// many cores such writes wait for each other (assumed: a tenth of a microsecond each). A worker
// marks itself as inside and then looks whether the loop is still open. The caller closes the loop
// and then looks which workers are inside. Both use sequential consistency, so one of them sees the
// other. Workers whose share is empty stay out.
class ThreadTeam {
 public:
  // The team is never destroyed: its threads sleep until the process ends.
  static ThreadTeam& instance() {
    static ThreadTeam* const team = new ThreadTeam;
    return *team;
  }

  // Returns false if the team is busy for somebody else. Otherwise it opens the loop by making the
  // loop number odd, works on the loop, closes it, and waits until all workers that entered have
  // left. Only then may the loop's data change.
  bool try_run(int threads, int64_t count, internal::LoopBody body, const void* context) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    start_workers(threads - 1);
    loop_ = {threads, count, body, context};
    distribute_iterations();
    open_threads_.store(threads, std::memory_order_release);
    open_count_.store(count, std::memory_order_release);
    number_.fetch_add(1);  // open
    number_.notify_all();
    take_iterations(0);
    number_.fetch_add(1);  // closed
    for (int worker = 1; worker < threads; ++worker) {
      std::atomic<int>& inside = inside_[static_cast<size_t>(worker)].flag;
      while (inside.load() != 0) wait_for_change(inside, 1);
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

    // Returns an iteration, or `end` or more if there is none. Threads that look for iterations
    // only read the lines of shares that are used up.
    int64_t take() {
      const int64_t seen = next.load(std::memory_order_relaxed);
      return seen < end ? next.fetch_add(1, std::memory_order_relaxed) : seen;
    }
  };
  struct alignas(kCacheLine) Inside {
    std::atomic<int> flag = 0;  // 1 while the worker may look at the loop
  };
  struct Loop {
    int threads = 0;
    int64_t count = 0;
    internal::LoopBody body = nullptr;
    const void* context = nullptr;
  };

  static bool is_open(uint32_t number) { return number % 2 == 1; }

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
    std::atomic<int>& inside = inside_[static_cast<size_t>(thread)].flag;
    uint32_t last_loop = 0;  // the number of the loop that this worker was in last; 0 is closed
    while (true) {
      const uint32_t number = number_.load();
      if (!is_open(number) || number == last_loop) {
        wait_for_change(number_, number);
        continue;
      }
      last_loop = number;
      if (!has_share(thread)) continue;
      inside.store(1);
      if (number_.load() == number) take_iterations(thread);
      // Sequentially consistent: notify_one() reads whether somebody waits, and must not do so
      // before the caller can see the 0. Otherwise the caller would sleep for ever.
      inside.store(0);
      inside.notify_one();
    }
  }

  // Returns whether the thread has iterations in the loop that is open. The answer may be that of a
  // later loop, if this one is closed meanwhile. Acquire and release then let the worker find this
  // one closed.
  bool has_share(int thread) const {
    const int threads = open_threads_.load(std::memory_order_acquire);
    if (thread >= threads) return false;
    const Range range = range_of(thread, threads, open_count_.load(std::memory_order_acquire));
    return range.first < range.end;
  }

  // Copies the loop, because it may be reused as soon as this thread has left.
  void take_iterations(int thread) {
    const Loop loop = loop_;
    try {
      internal::follow_binding(thread);
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
      const Range range = range_of(i, loop_.threads, loop_.count);
      Share& share = shares_[static_cast<size_t>(i)];
      share.next.store(range.first, std::memory_order_relaxed);
      share.end = range.end;
    }
  }

  // Waits until the value differs from `seen`. It first spins, because the next loop of a forward
  // pass usually comes soon, then yields the core to others, then sleeps.
  template <typename Value>
  static void wait_for_change(const std::atomic<Value>& value, Value seen) {
    for (int i = 0; i < kPauses + kYields; ++i) {
      if (value.load(std::memory_order_relaxed) != seen) return;
      if (i < kPauses) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    value.wait(seen, std::memory_order_relaxed);
  }

  // The loop number, which is odd while workers may enter.
  alignas(kCacheLine) std::atomic<uint32_t> number_ = 0;
  // The number of threads and of iterations of the loop that is open.
  std::atomic<int> open_threads_ = 0;
  std::atomic<int64_t> open_count_ = 0;
  alignas(kCacheLine) std::atomic<bool> busy_ = false;
  // Written before the loop opens, and read by the threads inside.
  Loop loop_;
  std::array<Share, kMaxThreads> shares_;
  std::array<Inside, kMaxThreads> inside_;
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
