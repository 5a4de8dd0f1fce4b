#pragma once
// Runs an NKI kernel with the Python package `nki`, which records what it does.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::apps {

// A folder of this run's own, which goes with it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

struct TracerCall {
  std::string kernel;              // "FILE.py:KERNEL"
  std::vector<std::string> flags;  // of nki.run, as they stand there
  std::filesystem::path trace;     // to be written
};

// What went wrong in the kernel has been said on standard error; the error of this call says so.
Status run_tracer(const TracerCall& call);

}  // namespace neuronmm::apps
