#pragma once
// SIGHUP for `neuronmm serve` (serve.cc). Programs that rotate logs send it to ask for a new file.
// The system sends it too when the terminal of a program is closed, which ends most programs.

namespace neuronmm::apps {

enum class Hangup {
  kNone,
  kReopenLog,
  // The terminal in which the program was started is closed, so nobody can press Ctrl-C there. A
  // program that was started with SIGHUP ignored, as by nohup, is never told this.
  kTerminalClosed,
};

// Lets SIGHUP set a flag instead of ending the process. The process calls it once.
void install_hangup_handler();

// Returns what SIGHUP means if it has come since the last call.
Hangup take_hangup();

}  // namespace neuronmm::apps
