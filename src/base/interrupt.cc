#include "base/interrupt.h"

#include <atomic>
#include <csignal>
#include <ctime>

#include <unistd.h>

namespace neuronmm {
namespace {

constexpr long kGraceNs = 400'000'000;  // of the promised 0.5 s; the rest is for the exit itself

std::atomic<bool> interrupt_flag{false};
std::atomic<bool> end_flag{false};  // it was SIGTERM
std::atomic<bool> second_flag{false};
std::atomic<int> unsaved_works{0}, orderly_ends{0};
static_assert(std::atomic<bool>::is_always_lock_free, "must be safe in a signal handler");
static_assert(std::atomic<int>::is_always_lock_free, "must be safe in a signal handler");

timer_t grace_timer;
bool has_timer = false;

// Only what POSIX lists as async-signal-safe is called from here on down to on_grace_over.
void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // without SA_RESTART: a blocked read returns and can ask interrupted()
  sigaction(signal, &action, nullptr);
}

// 0 stops it.
void set_grace(long nanoseconds) {
  if (!has_timer) return;
  const itimerspec once = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = nanoseconds}};
  timer_settime(grace_timer, 0, &once, nullptr);
}

// The second signal ends the process at once: the handlers are removed by the first. Beside an
// orderly end it is the third, and they are removed by the second.
void on_interrupt(int signal) {
  if (signal == SIGTERM) end_flag.store(true);
  const bool is_first = !interrupt_flag.exchange(true);
  if (is_first && orderly_ends.load() > 0) return;
  if (!is_first) second_flag.store(true);
  set_handler(SIGINT, SIG_DFL);
  set_handler(SIGTERM, SIG_DFL);
  set_grace(kGraceNs);
}

// For what does not look at interrupted() in time, a blocked system call for one.
void on_grace_over(int) {
  if (unsaved_works.load() > 0) return;  // its owner starts the grace again when it is done
  constexpr char kMessage[] = "\nneuronmm: interrupted\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(kInterruptedExit);
}

}  // namespace

// Without a timer the program still stops where it looks at interrupted().
void install_interrupt_handler() {
  struct sigevent event {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  has_timer = timer_create(CLOCK_MONOTONIC, &event, &grace_timer) == 0;
  set_handler(SIGALRM, on_grace_over);
  set_handler(SIGINT, on_interrupt);
  set_handler(SIGTERM, on_interrupt);
}

bool interrupted() { return interrupt_flag.load(std::memory_order_relaxed); }
const std::atomic<bool>& interrupt_request() { return interrupt_flag; }
void set_interrupted(bool value) { interrupt_flag.store(value); }

bool take_back_interrupt() {
  if (end_flag.load()) return false;
  set_grace(0);
  interrupt_flag.store(false);
  set_handler(SIGINT, on_interrupt);
  set_handler(SIGTERM, on_interrupt);
  return true;
}

UnsavedWork::UnsavedWork() { unsaved_works.fetch_add(1); }
// The last owner starts the grace again, so that saving is never cut off.
UnsavedWork::~UnsavedWork() {
  if (unsaved_works.fetch_sub(1) == 1 && interrupted()) set_grace(kGraceNs);
}

OrderlyEnd::OrderlyEnd() { orderly_ends.fetch_add(1); }
OrderlyEnd::~OrderlyEnd() { orderly_ends.fetch_sub(1); }
bool OrderlyEnd::wanted_now() const { return second_flag.load(); }

Error interrupted_error(std::string what_is_kept) {
  return {"interrupted: " + std::move(what_is_kept), Error::Kind::kInterrupted};
}

}  // namespace neuronmm
