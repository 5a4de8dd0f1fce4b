#pragma once
// Lets a test choose which allocations of a program fail. The preloaded failing_allocator.cc makes
// them fail. The test and the program map the same file, $NEURONMM_ALLOCATIONS.

#include <atomic>

namespace neuronmm {

// The file's content. Zeros make no allocation fail.
struct AllocationFaults {
  std::atomic<long> calls;  // the number of allocations so far
  // The allocations with the numbers first, ..., first + count - 1 fail, counted from 1.
  std::atomic<long> first, count;
  std::atomic<long> every;  // every so many allocations one fails; 0: none
};

}  // namespace neuronmm
