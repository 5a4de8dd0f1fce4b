#pragma once
// Keeps a reserve of memory for the time after memory has run out. memory_reserve.cc replaces the
// global operator new of both programs, and run_guarded() (process.h) fills the reserve.
//
// Clean-up and messages need memory, too: a destructor that removes a folder, or one that JSON
// values have, ends the program if it cannot allocate. The reserve is address space that nobody has
// written to, so it takes no memory of the machine. If malloc() fails, a piece of the reserve is
// given back to the system and the allocation is tried again, for
//   every allocation while an exception unwinds the stack
//   small allocations otherwise, as long as half of the reserve is left
// All other allocations throw std::bad_alloc. Small ones are first tried again for 20 ms, because
// other threads may give memory back. A build with sanitizers has no reserve, because their
// own operator new finds errors.

#include <cstddef>
#include <cstdint>

namespace neuronmm::apps {

// Fills the reserve as far as the system allows. Programs that go on after a failed allocation, as
// servers do, call it again from time to time.
void fill_memory_reserve();
// Returns the size of a full reserve.
int64_t memory_reserve_bytes();
// Returns the size of the last allocation that failed, in bytes, or 0 if none has.
std::size_t last_failed_allocation();

}  // namespace neuronmm::apps
