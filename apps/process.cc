#include "process.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/printable.h"
#include "io/mapped_file.h"
#include "memory_reserve.h"

namespace neuronmm::apps {
namespace {

// Opens /dev/null in place of each standard stream that is closed. Otherwise the first file that
// the program opens gets the number of the closed stream, and printed text goes into that file. The
// stream is opened for reading only, so that printing to it fails and is reported.
void reopen_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int null = ::open("/dev/null", O_RDONLY);  // open() takes the lowest free number
    if (null != descriptor && null >= 0) close(null);
  }
}

// The command that runs and the advice for it, which are kept without allocation.
std::array<char, 64> running_command{};
std::array<char, 512> advice_text{};

template <size_t kSize>
void keep(const std::string& text, std::array<char, kSize>& copy) {
  std::snprintf(copy.data(), copy.size(), "%s", text.c_str());
}

void write_error(const char* text) {
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
}

// Reports missing memory without allocating any, and returns exit code 1.
int report_out_of_memory() {
  static std::atomic_flag is_reported;  // cleaning up may fail for the same reason
  if (is_reported.test_and_set()) return 1;
  std::array<char, 64> asked{}, limited{};
  if (const size_t bytes = last_failed_allocation(); bytes > 0)
    std::snprintf(asked.data(), asked.size(), " (asked for %zu bytes more)", bytes);
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    std::snprintf(limited.data(), limited.size(), ", and ulimit -v allows %llu KiB",
                  static_cast<unsigned long long>(limit.rlim_cur >> 10));
  std::array<char, 1024> line{};
  std::snprintf(line.data(), line.size(), "neuronmm%s%s: out of memory%s%s; %s\n",
                running_command[0] == '\0' ? "" : " ", running_command.data(), asked.data(),
                limited.data(),
                advice_text[0] == '\0' ? "a smaller model may fit" : advice_text.data());
  std::fflush(stdout);
  write_error(line.data());
  return 1;
}

// Ends the program if an exception cannot be caught, because it left a destructor or another
// function that must not throw. If memory has run out, that is no mistake of the program, and gets
// the same message.
void end_after_uncaught_exception() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    std::_Exit(report_out_of_memory());
  } catch (...) {
  }
  std::abort();
}

// The stack of the main thread grows when it is used, and the program ends by a signal if there is
// no address space left for that. Deep recursion of parsers and templates is known to use less than
// this. Assumed.
constexpr size_t kStackBytes = size_t{1} << 20;

[[gnu::noinline]] void touch_stack() {
  std::array<volatile char, kStackBytes> stack;
  for (size_t i = 0; i < stack.size(); i += 4096) stack[stack.size() - 1 - i] = 0;
}

// Makes the main thread's stack as large as it will be used. Returns false if there is too little
// address space for that. The smallest stack that a user may set (`ulimit -s`) stays as it is.
bool grow_stack() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < 4 * kStackBytes) return true;
  void* const probe = mmap(nullptr, 2 * kStackBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, 2 * kStackBytes);
  touch_stack();
  return true;
}

// Lets all threads allocate from one heap if the address space is limited. Otherwise glibc reserves
// 64 MiB of it for each thread, and a thread that gets none asks the system for every allocation.
void share_heap_if_limited() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
}

void prepare() {
  share_heap_if_limited();
  reopen_closed_streams();
  std::set_terminate(end_after_uncaught_exception);
  if (!grow_stack()) throw std::bad_alloc();
  fill_memory_reserve();
  // With these signals ignored, writing fails with an error, which the program reports. SIGPIPE is
  // for closed pipes, SIGXFSZ for the file size limit (`ulimit -f`).
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  io::guard_mapped_reads();
  install_interrupt_handler();
}

// Returns whether standard output is a pipe or a socket that nobody reads any more, as in
// `neuronmm ... | head`.
bool reader_is_gone() {
  struct pollfd output = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&output, 1, /*timeout=*/0) == 1 && (output.revents & POLLERR) != 0;
}

// Prints the message on standard error and returns exit code 1. A failure to print is ignored,
// because no stream is left to report it on.
int report(const std::string& message) try {
  const std::string line = "neuronmm: " + printable(message) + "\n";
  [[maybe_unused]] const size_t ignored = std::fwrite(line.data(), 1, line.size(), stderr);
  return 1;
} catch (const std::bad_alloc&) {
  return report_out_of_memory();
}

}  // namespace

// Every kind of exception has its own message, because it needs its own advice.
int catch_exceptions(const std::function<int()>& program) {
  try {
    return program();
  } catch (const ClosedPipe&) {
    return kClosedPipeExit;
  } catch (const std::bad_alloc&) {
    return report_out_of_memory();
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe && reader_is_gone()) return kClosedPipeExit;
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return report("a thread cannot be started: " + error.code().message() +
                    "; a smaller --threads may do");
    }
    return report(std::string("output cannot be written: ") + error.code().message());
  } catch (const std::exception& error) {
    return report(error.what());
  }
}

// A command that succeeded still fails here if its output could not be written, so that a full disk
// does not look like success.
int run_guarded(const std::function<int()>& program) {
  const int code = catch_exceptions([&] {
    prepare();
    return program();
  });
  std::cout.flush();
  const bool failed = !std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || code != 0) return code;
  if (reader_is_gone()) return kClosedPipeExit;
  return report("standard output cannot be written: " + std::generic_category().message(errno));
}

void set_running_command(const std::string& name, const std::string& advice) {
  keep(name, running_command);
  keep(advice, advice_text);
}

}  // namespace neuronmm::apps
