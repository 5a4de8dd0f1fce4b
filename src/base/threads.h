#pragma once
// Threads for tasks that run long and call libraries, separate from the team of base/parallel.h.
// Compression uses them.

#include <cstdint>
#include <functional>

namespace neuronmm {

// Runs task(i) for i < count, each on a thread of its own, and returns when all are done. An
// exception of a task, or the system's error if a thread cannot be started, is thrown here after
// the started threads have ended.
void run_on_threads(int64_t count, const std::function<void(int64_t)>& task);

}  // namespace neuronmm
