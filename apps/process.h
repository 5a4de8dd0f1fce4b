#pragma once
// What stands between the program and the operating system, the same for every command.

#include <functional>

namespace neuronmm::apps {

// Runs `program` (its value is the exit code) so that nothing the system does goes unnoticed or
// ends it without a message: closed standard streams, full disks, files that shrink while they are
// read, file size limits, memory and threads that are not to be had, interrupts. Output that could
// not be written to the end turns exit code 0 into 1.
int run_guarded(const std::function<int()>& program);

// A program's work with its exceptions as messages; the exit code.
int run_caught(const std::function<int()>& program);

}  // namespace neuronmm::apps
