#pragma once
// Parallel loops over OpenMP's one thread team (the same team that OpenBLAS uses).

#include <cstdint>

#include <omp.h>

namespace neuronmm {

inline int num_threads() { return omp_get_max_threads(); }
inline void set_num_threads(int threads) { omp_set_num_threads(threads); }

// body(i) for i in [0, count), in any order, on all threads. Iterations must not touch the same
// data.
template <typename Body>
void parallel_for(int64_t count, const Body& body) {
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) body(i);
}

// body(first, last) on one contiguous share of [0, count) per thread.
template <typename Body>
void parallel_ranges(int64_t count, const Body& body) {
#pragma omp parallel
  {
    const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t first = count * thread / threads, last = count * (thread + 1) / threads;
    if (first < last) body(first, last);
  }
}

}  // namespace neuronmm
