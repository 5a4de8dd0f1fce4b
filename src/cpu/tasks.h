#pragma once
// Parallel loops that stay on the calling thread when the work is too small to pay for waking the
// others.

#include <cstdint>

#include "base/parallel.h"

namespace neuronmm::cpu {

// A parallel region costs some 2 us, in which one core does about this many multiply-adds on data
// in cache.
inline constexpr int64_t kSerialWork = 100'000;

// body(i), or body(i, thread), for i in [0, count); `work` multiply-adds in all.
template <typename Body>
void for_each_task(int64_t count, int64_t work, const Body& body) {
  if (work > kSerialWork) {
    parallel_for(count, body);
  } else if constexpr (std::is_invocable_v<const Body&, int64_t, int>) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
  } else {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
}

}  // namespace neuronmm::cpu
