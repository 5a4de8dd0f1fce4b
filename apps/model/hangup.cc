#include "model/hangup.h"

#include <atomic>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

namespace neuronmm::apps {
namespace {

std::atomic<bool> hangup_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "must be safe in a signal handler");
bool ends_with_terminal = false;

// Returns whether the process has a controlling terminal, which it loses when that one is closed.
bool has_terminal() {
  const int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

}  // namespace

void install_hangup_handler() {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { hangup_flag.store(true); };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, &before);
  ends_with_terminal = before.sa_handler != SIG_IGN && has_terminal();
}

Hangup take_hangup() {
  if (!hangup_flag.exchange(false)) return Hangup::kNone;
  return ends_with_terminal && !has_terminal() ? Hangup::kTerminalClosed : Hangup::kReopenLog;
}

}  // namespace neuronmm::apps
