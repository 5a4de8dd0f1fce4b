#include "process.h"

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
#include <poll.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/printable.h"
#include "io/mapped_file.h"

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

void prepare() {
  reopen_closed_streams();
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
int report(const std::string& message) {
  const std::string line = "neuronmm: " + printable(message) + "\n";
  [[maybe_unused]] const size_t ignored = std::fwrite(line.data(), 1, line.size(), stderr);
  return 1;
}

}  // namespace

// Every kind of exception has its own message, because it needs its own advice.
int catch_exceptions(const std::function<int()>& program) {
  try {
    return program();
  } catch (const ClosedPipe&) {
    return kClosedPipeExit;
  } catch (const std::bad_alloc&) {
    return report("out of memory: a smaller model, context or --max-new-tokens may fit");
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
  prepare();
  const int code = catch_exceptions(program);
  std::cout.flush();
  const bool failed = !std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || code != 0) return code;
  if (reader_is_gone()) return kClosedPipeExit;
  return report("standard output cannot be written: " + std::generic_category().message(errno));
}

}  // namespace neuronmm::apps
