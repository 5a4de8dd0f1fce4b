#pragma once
// The memory domains (NUMA nodes) of this machine. A core reads the memory of its own domain faster
// than that of another. Threads can therefore be bound to the cores of a domain, and data that all
// of them read can be copied into each domain.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace neuronmm {

struct MemoryDomain {
  int node = 0;            // Linux's number of it
  std::vector<int> cores;  // the cores on which the system may run this process, in order
};

// Returns the domains with at least one core for this process, in the order of their numbers. If
// the system does not tell, all allowed cores are one domain. `folder` lists the nodes; tests pass
// another one.
std::vector<MemoryDomain> memory_domains(
    const std::filesystem::path& folder = "/sys/devices/system/node");

// The core of one thread.
struct ThreadPlace {
  int domain = 0;  // an index of the list of domains
  int core = 0;
};
// Returns the places of `threads` threads. The first threads are in the first domain, and each
// domain takes threads in proportion to its cores. Every core has one thread before any has two.
std::vector<ThreadPlace> thread_places(std::span<const MemoryDomain> domains, int threads);

// Binds the threads of all later parallel loops (base/parallel.h) to the places of `threads`
// threads, and releases them if there are no domains. A thread that calls parallel_for() may run on
// every core of the first domain, because threads that it starts later inherit its cores. No loop
// may run meanwhile. If the system refuses to bind a thread, that thread stays where it is.
void bind_threads(std::vector<MemoryDomain> domains, int threads);
// Returns the domains that threads are bound to; none if they are not bound.
const std::vector<MemoryDomain>& bound_domains();

namespace internal {
// The index in bound_domains() of the domain in which this thread computes.
extern constinit thread_local int thread_domain;
// Binds the calling thread as thread number `thread` of a loop, unless it is bound already.
void follow_binding(int thread);
}  // namespace internal

inline int thread_domain() { return internal::thread_domain; }

// Runs `task` on a new thread on the cores of a bound domain. Pages that it writes first lie there.
void run_in_domain(int domain, const std::function<void()>& task);

// Asks the system to keep whole pages of [memory, memory + bytes) in the memory of a node as long
// as there is room, and moves those that exist. Returns false if the system refuses.
bool prefer_node(void* memory, size_t bytes, int node);

}  // namespace neuronmm
