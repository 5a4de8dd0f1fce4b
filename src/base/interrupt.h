#pragma once
// Handles Ctrl-C. Long work asks interrupted() between steps, so that it can stop and keep
// everything that is finished. Whoever presses Ctrl-C has the terminal back within half a second:
// the process ends if work does not stop in time.
//
// The programs of apps/ install the handler. Libraries ask interrupted() and return
// interrupted_error(). A program turns such an error into the exit code 130. The Python package
// installs no handler; it sets the flag when a call is to stop (python/bindings/job.cc).

#include <atomic>

#include "base/result.h"

namespace neuronmm {

// Installs handlers for SIGINT, SIGTERM and SIGHUP, the end of the terminal, which stays ignored
// under nohup. The first signal sets a flag and breaks off a blocked read. If the process still
// runs 0.4 s later, it ends with exit code 130. All outputs are written so that a killed run leaves
// nothing half-written and the next run continues from what was kept. A second SIGINT or SIGTERM
// ends the process at once, even while work is unsaved (UnsavedWork); only an OrderlyShutdown
// changes this. If the system gives no timer, the process ends only where work asks interrupted().
// Programs call this function; libraries do not.
void install_interrupt_handler();

// The exit code of an interrupted program: 128 + SIGINT, as shells report it.
inline constexpr int kInterruptedExit = 130;

// Returns whether a signal has asked the program to stop.
bool interrupted();
// The flag itself, for StoppableLoops (base/parallel.h).
const std::atomic<bool>& interrupt_request();
// Sets or clears the flag without a signal. Python's jobs and the tests call it.
void set_interrupted(bool value);

// Forgets a Ctrl-C that the program has obeyed, so that the next one counts as the first again.
// `chat` calls it after an answer that Ctrl-C ended. Returns false after SIGTERM or
// SIGHUP, which ask for the end of the program and are not forgotten.
bool forget_interrupt();

// While an object of this class exists, finished work is in memory only. The first signal then does
// not end the process after 0.4 s. The owner has to ask interrupted(), save the work and destroy
// the object; the 0.4 s begin after that. Several objects may exist at the same time, and the last
// one counts. The class is for steps that may take longer than 0.4 s.
class UnsavedWork {
 public:
  UnsavedWork();
  ~UnsavedWork();
  UnsavedWork(const UnsavedWork&) = delete;
  UnsavedWork& operator=(const UnsavedWork&) = delete;
};

// Like UnsavedWork, for a program that obeys the first signal when it is ready, for example a
// server that finishes its answers. The program obeys the second signal at once. The third ends the
// process.
class OrderlyShutdown : public UnsavedWork {
 public:
  OrderlyShutdown();
  ~OrderlyShutdown();
  // Returns whether the second signal has come.
  bool must_stop_now() const;
};

// Returns the error for interrupted work, of the kind Error::Kind::kInterrupted. Its message is
// "interrupted: " followed by `what_is_done`, and by where finished work is kept (kept_work.h) if
// the command keeps any.
Error interrupted_error(std::string what_is_done);

}  // namespace neuronmm
