#include "base/cpu_quota.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <new>
#include <numeric>
#include <thread>

#include "base/control_groups.h"

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

// Returns a whole number of microseconds above 0, or nothing. -1 and "max" stand for no quota.
std::optional<double> microseconds(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || value <= 0) return std::nullopt;
  return static_cast<double>(value);
}

// Version 2 has "QUOTA PERIOD" in one file, version 1 has two files.
std::optional<CpuQuota> quota_of_group(const fs::path& folder, ControlGroupVersion version) {
  const bool version2 = version == ControlGroupVersion::kTwo;
  const fs::path file = folder / (version2 ? "cpu.max" : "cpu.cfs_quota_us");
  std::ifstream first(file);
  std::string quota, period;
  first >> quota;
  if (version2) {
    first >> period;
  } else {
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  const auto used = microseconds(quota), passed = microseconds(period);
  if (!used || !passed) return std::nullopt;
  return CpuQuota{*used / *passed, file.string()};
}

}  // namespace

std::optional<CpuQuota> cpu_quota(const fs::path& root) {
  std::optional<CpuQuota> smallest;
  visit_control_groups(root, "cpu", [&](const fs::path& folder, ControlGroupVersion version) {
    auto quota = quota_of_group(folder, version);
    if (quota && (!smallest || quota->cores < smallest->cores)) smallest = std::move(quota);
  });
  return smallest;
}

CoreMask::CoreMask(int cores) : mask_(CPU_ALLOC(cores)), bytes_(CPU_ALLOC_SIZE(cores)) {
  if (mask_ == nullptr) throw std::bad_alloc();
  CPU_ZERO_S(bytes_, mask_.get());
}

// The kernel refuses a mask that is shorter than its own, so longer ones are tried.
std::vector<int> allowed_core_list() {
  constexpr int kMostCores = 1 << 16;
  std::vector<int> list;
  for (int cores = CPU_SETSIZE; cores <= kMostCores && list.empty(); cores *= 2) {
    const CoreMask mask(cores);
    if (sched_getaffinity(0, mask.bytes(), mask.get()) == 0) {
      for (int core = 0; core < cores; ++core) {
        if (CPU_ISSET_S(static_cast<size_t>(core), mask.bytes(), mask.get())) list.push_back(core);
      }
    } else if (errno != EINVAL) {
      break;
    }
  }
  if (!list.empty()) return list;
  list.resize(std::max(1u, std::thread::hardware_concurrency()));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

int threads_for_process(int processes, bool shares_cores, const fs::path& root) {
  const auto cores = static_cast<int>(std::ssize(allowed_core_list()));
  int threads = std::max(1, shares_cores ? cores / processes : cores);
  if (const auto quota = cpu_quota(root)) {
    const double share = std::floor(quota->cores / processes);
    if (share < threads) threads = std::max(1, static_cast<int>(share));
  }
  return threads;
}

}  // namespace neuronmm
