#pragma once
// Threads of a piece of work's own, beside the team of base/parallel.h: for tasks that run long and
// call libraries.

#include <cstdint>
#include <functional>

namespace neuronmm {

// task(i) for i < count, each on a thread of its own; returns when all are done. Whatever a task
// throws, or the system in place of a thread, is thrown here, after the threads that did start.
void run_on_threads(int64_t count, const std::function<void(int64_t)>& task);

}  // namespace neuronmm
