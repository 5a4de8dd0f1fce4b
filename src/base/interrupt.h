#pragma once
// Ctrl-C as a question that long work asks between steps, so that it can stop with everything
// finished kept; and as a promise: whoever presses it has the terminal back within half a second.

#include <atomic>

#include "base/result.h"

namespace neuronmm {

// SIGINT and SIGTERM set a flag and break off a blocked read. Work that has not returned 0.4 s
// later is ended with exit code 130: every output is made so that a killed run leaves nothing
// half-written and the next run goes on from what it kept. A second signal ends the process at
// once. Called by programs, not by libraries.
void install_interrupt_handler();

inline constexpr int kInterruptedExit = 130;  // 128 + SIGINT, what shells report

bool interrupted();
const std::atomic<bool>& interrupt_request();  // the same, for StoppableLoops (base/parallel.h)
void set_interrupted(bool value);              // for tests

// For programs that go on after a Ctrl-C which they have obeyed, as a chat after the answer that it
// ended: the next one is a first one again. False for SIGTERM, which asks for the end of the
// program and stays.
bool take_back_interrupt();

// While one lives, finished work is in memory only, and an interrupt waits until the step at hand
// is over and its owner has saved it. For steps that may take longer than 0.4 s.
class UnsavedWork {
 public:
  UnsavedWork();
  ~UnsavedWork();
  UnsavedWork(const UnsavedWork&) = delete;
  UnsavedWork& operator=(const UnsavedWork&) = delete;
};

// As UnsavedWork, for a program that obeys the first signal in its own time, as a server that lets
// its answers come to their end, and the second at once. The third ends the process.
class OrderlyEnd : public UnsavedWork {
 public:
  OrderlyEnd();
  ~OrderlyEnd();
  bool wanted_now() const;  // the second has come
};

// The error that interrupted work returns; `what_is_kept` completes "interrupted: ...".
Error interrupted_error(std::string what_is_kept);

}  // namespace neuronmm
