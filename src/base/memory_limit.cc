#include "base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include <pthread.h>
#include <sys/resource.h>

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

// A mounted hierarchy of control groups that limit memory.
struct Hierarchy {
  bool version2 = false;
  fs::path group;        // the group that is mounted at `mount_point`
  fs::path mount_point;  // an absolute path
};

// Returns whether a comma-separated list has the entry.
bool has_entry(std::string_view list, std::string_view entry) {
  for (;;) {
    const size_t end = list.find(',');
    if (list.substr(0, end) == entry) return true;
    if (end == std::string_view::npos) return false;
    list.remove_prefix(end + 1);
  }
}

// Returns the hierarchy that a line of /proc/self/mountinfo describes, if it is one. Its fields are
// numbered as in proc(5): 4 is the root of the mount, 5 the mount point. After a "-" come the type,
// the source and the options.
std::optional<Hierarchy> parse_mount(const std::string& line) {
  std::istringstream fields(line);
  std::string skipped, group, mount_point, type, source, options;
  fields >> skipped >> skipped >> skipped >> group >> mount_point;
  while (fields >> skipped && skipped != "-") {
  }
  fields >> type >> source >> options;
  if (type == "cgroup2") return Hierarchy{true, group, mount_point};
  if (type == "cgroup" && has_entry(options, "memory")) return Hierarchy{false, group, mount_point};
  return std::nullopt;
}

// Returns this process's group in a hierarchy, from a line "ID:CONTROLLERS:GROUP" of
// /proc/self/cgroup. Version 2 has no controllers there.
std::optional<fs::path> parse_group(const std::string& line, bool version2) {
  const size_t first = line.find(':');
  const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
  if (version2 ? !controllers.empty() : !has_entry(controllers, "memory")) return std::nullopt;
  return fs::path(line.substr(second + 1));
}

// Returns the group's path below the mount point. A container may see a group that is not below
// what is mounted there; the mounted group is then the container's own.
fs::path path_in_mount(const fs::path& group, const Hierarchy& hierarchy) {
  const fs::path below = group.lexically_relative(hierarchy.group);
  const bool outside = below.empty() || *below.begin() == ".." || *below.begin() == ".";
  return outside ? fs::path() : below;
}

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
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto hierarchy = parse_mount(line);
    if (!hierarchy) continue;
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string entry; std::getline(groups, entry);) {
      const auto group = parse_group(entry, hierarchy->version2);
      if (!group) continue;
      const fs::path top = root / hierarchy->mount_point.relative_path();
      fs::path below = path_in_mount(*group, *hierarchy);
      for (;; below = below.parent_path()) {
        take_smaller(smallest,
                     top / below / (hierarchy->version2 ? "memory.max" : "memory.limit_in_bytes"));
        if (below.empty()) break;
      }
    }
  }
  return smallest;
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
