#pragma once
// Runs the work of a whole program: prepares the process, turns exceptions into messages, and
// checks at the end that all output was written. The main function calls it (main.cc).

#include <exception>
#include <functional>
#include <string>

namespace neuronmm::apps {

// The exit code after standard output was closed by its reader. Documented: shells report 128 + 13
// for programs that SIGPIPE ends.
inline constexpr int kClosedPipeExit = 141;

// Thrown where the output is a pipe whose reader has ended. The program then ends with
// kClosedPipeExit and without a message, because the reader has seen what it wanted.
struct ClosedPipe : std::exception {};

// Runs `program` and returns its exit code. Failures of the system end the program with a message
// and never silently. This covers closed standard streams, full disks, file size limits, files that
// shrink while they are read, too little memory, threads that cannot be started, and interrupts. If
// standard output could not be written completely, exit code 0 becomes 1. If the reason is that the
// program behind a pipe has ended, no message is printed and the exit code is kClosedPipeExit.
int run_guarded(const std::function<int()>& program);

// Runs `program` and returns its exit code. An exception becomes a message on standard error and
// exit code 1.
int catch_exceptions(const std::function<int()>& program);

// Names the command that runs from now on, and says what its user may do if memory runs out:
// "fewer --threads may fit". The message about missing memory quotes both.
void set_running_command(const std::string& name, const std::string& advice);

}  // namespace neuronmm::apps
