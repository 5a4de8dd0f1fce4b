#pragma once
// Finds neuronmm-finetune, the program that links libtorch, and declares the environment it runs
// in. The command `finetune` becomes this program.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::apps {

// Returns the path of neuronmm-finetune in the folder of the running program. The file may be
// missing.
Result<std::filesystem::path> trainer_path();
// Returns an error if a limit of the address space (ulimit -v) is too small to load libtorch.
Status check_trainer_memory();
// Returns the error for a missing program, which says how to build with libtorch.
Error missing_trainer_error(const std::filesystem::path& trainer);

// The environment variable that lets OpenMP's threads sleep between loops, and its value. libtorch
// has many short loops, and threads that spin between them take the cores from each other. Measured
// on two busy cores: training is 15 times as fast with it (docs/measurements/finetune.md).
inline constexpr const char* kWaitPolicyVariable = "OMP_WAIT_POLICY";
inline constexpr const char* kPassiveWait = "PASSIVE";

// The environment variable that makes glibc keep the memory of freed tensors in huge pages, and its
// value. By default glibc returns the memory of large tensors to the system, which clears it again
// for the next ones. Measured: training takes 5 % less processor time with it
// (docs/measurements/finetune.md).
inline constexpr const char* kAllocatorVariable = "GLIBC_TUNABLES";
inline constexpr const char* kKeepFreedMemory =
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:"
    "glibc.malloc.top_pad=67108864:glibc.malloc.hugetlb=1";

}  // namespace neuronmm::apps
