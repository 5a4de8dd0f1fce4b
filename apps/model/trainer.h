#pragma once
// Where the program that links libtorch is, for those that start it.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::apps {

// neuronmm-finetune in the folder of the running program, whether it is there or not.
Result<std::filesystem::path> trainer_path();
// What a build without libtorch has to say.
Error trainer_is_missing(const std::filesystem::path& trainer);

// libtorch's threads spin between its many short loops unless told to sleep. Measured on two busy
// cores: 53 tokens/s spinning, 800 sleeping (the bundled model).
inline constexpr const char* kWaitPolicy = "OMP_WAIT_POLICY";
inline constexpr const char* kSleepingThreads = "PASSIVE";

// glibc hands memory of large tensors back to the system when they die, and the system clears it
// for the next. These keep it, in huge pages. Measured on busy cores, one run each: 8.25 processor
// ms per trained token with them, 8.68 without.
inline constexpr const char* kAllocator = "GLIBC_TUNABLES";
inline constexpr const char* kMemoryIsKept =
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:"
    "glibc.malloc.top_pad=67108864:glibc.malloc.hugetlb=1";

}  // namespace neuronmm::apps
