#pragma once
// Parallel loops that stay on the calling thread if the work is too small to pay for waking the
// others. All loops of the CPU backend use them.

#include <cstdint>

#include "base/parallel.h"

namespace neuronmm::cpu {

// Starting a parallel loop costs about 2 us, in which one core does about this many multiply-adds
// on data in cache.
inline constexpr int64_t kSerialWork = 100'000;

// Runs body(i) or body(i, thread) for i in [0, count). `work` is the number of multiply-adds of all
// iterations together. A recorder (base/loop_recorder.h) sees small loops, too.
template <typename Body>
void for_each_task(int64_t count, int64_t work, const Body& body,
                   CodePlace where = CodePlace::current()) {
  if (work > kSerialWork || internal::loop_recorder != nullptr) {
    parallel_for(count, body, {where, work});
  } else if constexpr (std::is_invocable_v<const Body&, int64_t, int>) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
  } else {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
}

}  // namespace neuronmm::cpu
