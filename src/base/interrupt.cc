#include "base/interrupt.h"

#include <atomic>
#include <csignal>

namespace neuronmm {
namespace {

std::atomic<bool> interrupt_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "must be safe in a signal handler");

void on_signal(int signal) {
  interrupt_flag.store(true);
  std::signal(signal, SIG_DFL);
}

}  // namespace

void install_interrupt_handler() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() { return interrupt_flag.load(std::memory_order_relaxed); }
void set_interrupted(bool value) { interrupt_flag.store(value); }

Error interrupted_error(std::string what_is_kept) {
  return {"interrupted: " + std::move(what_is_kept), Error::Kind::kInterrupted};
}

}  // namespace neuronmm
