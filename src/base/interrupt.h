#pragma once
// Ctrl-C as a question that long work asks between steps, so that it can stop with everything
// finished kept.

#include "base/result.h"

namespace neuronmm {

// SIGINT and SIGTERM set a flag; a second one ends the process at once. Called by programs, not by
// libraries.
void install_interrupt_handler();

bool interrupted();
void set_interrupted(bool value);  // for tests

// The error that interrupted work returns; `what_is_kept` completes "interrupted: ...".
Error interrupted_error(std::string what_is_kept);

}  // namespace neuronmm
