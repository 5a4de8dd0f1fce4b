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
#include <unistd.h>

#include "base/interrupt.h"
#include "base/printable.h"
#include "io/mapped_file.h"

namespace neuronmm::apps {
namespace {

// Without this the first file that is opened would get the number of a closed stream, and what is
// printed would go into it. Opened for reading only: printing there fails and is noticed.
void reopen_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int null = ::open("/dev/null", O_RDONLY);  // the lowest free number: this one
    if (null != descriptor && null >= 0) close(null);
  }
}

void prepare() {
  reopen_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);  // writing fails with an error instead, which we report
  std::signal(SIGXFSZ, SIG_IGN);  // the same for `ulimit -f`
  io::guard_mapped_reads();
  install_interrupt_handler();
}

// To standard error, where a failure cannot be told to anybody.
int report(const std::string& message) {
  const std::string line = "neuronmm: " + printable(message) + "\n";
  [[maybe_unused]] const size_t ignored = std::fwrite(line.data(), 1, line.size(), stderr);
  return 1;
}

}  // namespace

// The last place where an exception can become a message. By kind: each has its own advice.
int run_caught(const std::function<int()>& program) {
  try {
    return program();
  } catch (const std::bad_alloc&) {
    return report("out of memory: a smaller model, context or --max-new-tokens may fit");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return report("a thread cannot be started: " + error.code().message() +
                    "; a smaller --threads may do");
    }
    return report(std::string("output cannot be written: ") + error.code().message());
  } catch (const std::exception& error) {
    return report(error.what());
  }
}

// Output that cannot be written is an error of a command that has succeeded otherwise: a full disk
// must not look like success.
int run_guarded(const std::function<int()>& program) {
  prepare();
  const int code = run_caught(program);
  std::cout.flush();
  const bool failed = !std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || code != 0) return code;
  return report("standard output cannot be written: " + std::generic_category().message(errno));
}

}  // namespace neuronmm::apps
