#include "base/interrupt.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <string_view>

#include <unistd.h>

#include "base/kept_work.h"

namespace neuronmm {
namespace {

// Out of the promised 0.5 s; the rest is for the exit itself.
constexpr long kGraceNs = 400'000'000;

std::atomic<bool> interrupt_flag{false};
std::atomic<bool> end_flag{false};  // the signal was SIGTERM or SIGHUP
std::atomic<bool> second_flag{false};
std::atomic<int> unsaved_works{0}, orderly_shutdowns{0};
static_assert(std::atomic<bool>::is_always_lock_free, "must be safe in a signal handler");
static_assert(std::atomic<int>::is_always_lock_free, "must be safe in a signal handler");

timer_t grace_timer;
bool has_timer = false;

// From here to on_grace_over, the code runs in signal handlers. It only calls functions that POSIX
// lists as async-signal-safe.
void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // without SA_RESTART a blocked read returns and can ask interrupted()
  sigaction(signal, &action, nullptr);
}

// Starts the timer that ends the process, or stops it for 0.
void set_grace(long nanoseconds) {
  if (!has_timer) return;
  const itimerspec once = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = nanoseconds}};
  timer_settime(grace_timer, 0, &once, nullptr);
}

// Normally the first signal restores the default handlers, so that the second one ends the process.
// During an orderly end the second signal restores them, and the third one ends the process.
void on_interrupt(int signal) {
  if (signal != SIGINT) end_flag.store(true);
  const bool is_first = !interrupt_flag.exchange(true);
  if (is_first && orderly_shutdowns.load() > 0) return;
  // A terminal that is closed may send several, and the first one needs its time.
  if (!is_first && signal == SIGHUP) return;
  if (!is_first) second_flag.store(true);
  set_handler(SIGINT, SIG_DFL);
  set_handler(SIGTERM, SIG_DFL);
  set_grace(kGraceNs);
}

// Ends a process that does not look at interrupted() in time, for example in a blocked system call.
void on_grace_over(int) {
  if (unsaved_works.load() > 0) return;  // the owner's destructor starts the timer again
  const auto print = [](std::string_view text) {
    [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
  };
  const std::string_view kept = kept_work_text();
  print("\nneuronmm: interrupted");
  print(kept.empty() ? "" : "; ");
  print(kept);
  print("\n");
  _exit(kInterruptedExit);
}

}  // namespace

// If no timer can be made, the program still stops where it looks at interrupted().
void install_interrupt_handler() {
  struct sigevent event {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  has_timer = timer_create(CLOCK_MONOTONIC, &event, &grace_timer) == 0;
  set_handler(SIGALRM, on_grace_over);
  set_handler(SIGINT, on_interrupt);
  set_handler(SIGTERM, on_interrupt);
  struct sigaction hangup {};
  const bool ignored = sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
  if (!ignored) set_handler(SIGHUP, on_interrupt);  // nohup ignores it
}

bool interrupted() { return interrupt_flag.load(std::memory_order_relaxed); }
const std::atomic<bool>& interrupt_request() { return interrupt_flag; }
void set_interrupted(bool value) { interrupt_flag.store(value); }

bool forget_interrupt() {
  if (end_flag.load()) return false;
  set_grace(0);
  interrupt_flag.store(false);
  set_handler(SIGINT, on_interrupt);
  set_handler(SIGTERM, on_interrupt);
  return true;
}

UnsavedWork::UnsavedWork() { unsaved_works.fetch_add(1); }
// The last owner starts the timer again, so that saving is never cut off.
UnsavedWork::~UnsavedWork() {
  if (unsaved_works.fetch_sub(1) == 1 && interrupted()) set_grace(kGraceNs);
}

OrderlyShutdown::OrderlyShutdown() { orderly_shutdowns.fetch_add(1); }
OrderlyShutdown::~OrderlyShutdown() { orderly_shutdowns.fetch_sub(1); }
bool OrderlyShutdown::must_stop_now() const { return second_flag.load(); }

Error interrupted_error(std::string what_is_done) {
  std::string message = "interrupted: " + std::move(what_is_done);
  if (!kept_work_text().empty()) message.append("; ").append(kept_work_text());
  return {std::move(message), Error::Kind::kInterrupted};
}

}  // namespace neuronmm
