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

}  // namespace neuronmm::apps
