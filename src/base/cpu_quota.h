#pragma once
// Tells how many threads can compute at once in this process: its CPU affinity and the CPU quota of
// its control groups limit them. Linux stops a group that has used up its quota until the next
// period begins. Threads beyond the quota therefore only stop each other.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sched.h>

namespace neuronmm {

// The time that the processes of a control group may compute, divided by the time that passes.
struct CpuQuota {
  double cores = 0;  // > 0
  std::string file;  // the file that sets the quota, for messages
};

// Returns the smallest CPU quota of the control groups (version 1 or 2) that this process is in, or
// nothing if none of them has a quota. Groups are nested, and each limits all groups in it. `root`
// is the root of the file system; tests pass a folder.
std::optional<CpuQuota> cpu_quota(const std::filesystem::path& root = "/");

// An empty set of cores for sched_getaffinity and sched_setaffinity, for machines of any size.
class CoreMask {
 public:
  explicit CoreMask(int cores);  // throws std::bad_alloc
  cpu_set_t* get() const { return mask_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
  };
  std::unique_ptr<cpu_set_t, Free> mask_;
  size_t bytes_;
};

// Returns the cores on which the system may run this thread, in order. There is at least one.
std::vector<int> allowed_core_list();

// Returns how many threads each of `processes` processes, which share this machine, should compute
// with: its equal share of the allowed cores, but no more than its share of the quota, rounded
// down. At least 1. `shares_cores` is false if every process has allowed cores of its own.
int threads_for_process(int processes = 1, bool shares_cores = true,
                        const std::filesystem::path& root = "/");

}  // namespace neuronmm
