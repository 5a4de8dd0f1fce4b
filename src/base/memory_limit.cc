#include "base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/control_groups.h"

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

void take_smaller(std::optional<MemoryLimit>& smallest, const fs::path& file) {
  int64_t bytes = 0;
  // "max" stands for no limit, and so do numbers above all memory in version 1.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  if (!(std::ifstream(file) >> bytes) || bytes <= 0 || bytes >= kNoLimit) return;
  if (!smallest || bytes < smallest->bytes) smallest = MemoryLimit{bytes, file.string()};
}

}  // namespace

std::optional<MemoryLimit> container_memory_limit(const fs::path& root) {
  std::optional<MemoryLimit> smallest;
  visit_control_groups(root, "memory", [&](const fs::path& folder, ControlGroupVersion version) {
    const bool version2 = version == ControlGroupVersion::kTwo;
    take_smaller(smallest, folder / (version2 ? "memory.max" : "memory.limit_in_bytes"));
  });
  return smallest;
}

int64_t machine_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? int64_t{pages} * page_bytes : INT64_MAX;
}

MemoryUse memory_use() {
  constexpr int64_t kKiB = 1024;
  MemoryUse use;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string name;
    int64_t size = 0;
    if (!(fields >> name >> size)) continue;
    if (name == "RssAnon:") use.anonymous = size * kKiB;
    if (name == "RssFile:") use.mapped = size * kKiB;
    if (name == "VmData:") use.data = size * kKiB;
    if (name == "VmSize:") use.address_space = size * kKiB;
  }
  return use;
}

int64_t mappable_bytes() {
  const MemoryUse use = memory_use();
  int64_t left = INT64_MAX;
  const auto obey = [&](auto resource, int64_t used) {
    rlimit limit = {};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
    left = std::min(left, std::max<int64_t>(0, most - used));
  };
  obey(RLIMIT_AS, use.address_space);
  obey(RLIMIT_DATA, use.data);
  return left;
}

void limit_anonymous_memory(int64_t bytes, int64_t new_threads) {
  size_t stack_bytes = 0;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &stack_bytes);
    pthread_attr_destroy(&attributes);
  }
  const MemoryUse use = memory_use();
  const int64_t allowed = use.data + std::max<int64_t>(0, bytes - use.anonymous) +
                          new_threads * static_cast<int64_t>(stack_bytes);
  rlimit limit = {};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(static_cast<rlim_t>(allowed), limit.rlim_max);
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace neuronmm
