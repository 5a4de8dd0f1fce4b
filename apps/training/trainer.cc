#include "training/trainer.h"

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>

#include "base/memory_limit.h"

namespace neuronmm::apps {

namespace fs = std::filesystem;
namespace {

// The address space that loading libtorch takes, and each core in addition, for which OpenBLAS
// reserves memory at that time. The dynamic linker ends a program that has too little, and OpenBLAS
// waits for ever. Measured with libtorch 1.13 on 2 cores: 0.9 GiB.
constexpr int64_t kLibraryBytes = int64_t{1} << 30, kCoreBytes = int64_t{192} << 20;

}  // namespace

Result<fs::path> trainer_path() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe: cannot be read: {}", error.message());
  return self.parent_path() / "neuronmm-finetune";
}

Status check_trainer_memory() {
  const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const int64_t needed = kLibraryBytes + cores * kCoreBytes;
  if (mappable_bytes() >= needed) return {};
  return fail("too little address space for libtorch: expected {} MB more, found {} (ulimit -v)",
              needed >> 20, mappable_bytes() >> 20);
}

Error missing_trainer_error(const fs::path& trainer) {
  return fail(
      "{} is missing, because libtorch was not found when neuronmm was built. Install it "
      "(tools/install_dependencies.sh finetune, or Debian's libtorch-dev, or unpack one of "
      "pytorch.org and give its folder to cmake as -DCMAKE_PREFIX_PATH), then configure and build "
      "again",
      trainer.string());
}

}  // namespace neuronmm::apps
