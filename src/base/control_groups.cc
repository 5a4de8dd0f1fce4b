#include "base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

// A mounted hierarchy of control groups.
struct Hierarchy {
  ControlGroupVersion version;
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

// Decodes the bytes that mountinfo writes as a backslash and three octal digits, as for spaces.
std::string unescape(const std::string& text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Returns the hierarchy that a line of /proc/self/mountinfo describes, if it is one. Its fields are
// numbered as in proc(5): 4 is the root of the mount, 5 the mount point. After a "-" come the type,
// the source and the options.
std::optional<Hierarchy> parse_mount(const std::string& line, std::string_view controller) {
  std::istringstream fields(line);
  std::string skipped, group, mount_point, type, source, options;
  fields >> skipped >> skipped >> skipped >> group >> mount_point;
  while (fields >> skipped && skipped != "-") {
  }
  fields >> type >> source >> options;
  const bool version2 = type == "cgroup2";
  if (!version2 && !(type == "cgroup" && has_entry(options, controller))) return std::nullopt;
  return Hierarchy{version2 ? ControlGroupVersion::kTwo : ControlGroupVersion::kOne,
                   unescape(group), unescape(mount_point)};
}

// Returns this process's group in a hierarchy, from a line "ID:CONTROLLERS:GROUP" of
// /proc/self/cgroup. Version 2 has no controllers there.
std::optional<fs::path> parse_group(const std::string& line, std::string_view controller,
                                    ControlGroupVersion version) {
  const size_t first = line.find(':');
  const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
  const bool of_version = version == ControlGroupVersion::kTwo ? controllers.empty()
                                                               : has_entry(controllers, controller);
  if (!of_version) return std::nullopt;
  return fs::path(line.substr(second + 1));
}

// A group that is mounted, and those above it that are.
struct MountedGroup {
  ControlGroupVersion version;
  fs::path top, below;  // the mount point, and the path of the group from there
  // Whether the process's group is not in the part of the hierarchy that is mounted. `below` is
  // empty then.
  bool outside;
};

MountedGroup mounted_group(const fs::path& root, const fs::path& group,
                           const Hierarchy& hierarchy) {
  const fs::path top = root / hierarchy.mount_point.relative_path();
  const fs::path below = group.lexically_relative(hierarchy.group);
  if (below == ".") return {hierarchy.version, top, fs::path(), false};
  const bool outside = below.empty() || *below.begin() == "..";
  return {hierarchy.version, top, outside ? fs::path() : below, outside};
}

std::vector<MountedGroup> mounted_groups(const fs::path& root, std::string_view controller) {
  std::vector<MountedGroup> found;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto hierarchy = parse_mount(line, controller);
    if (!hierarchy) continue;
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string entry; std::getline(groups, entry);) {
      const auto group = parse_group(entry, controller, hierarchy->version);
      if (group) found.push_back(mounted_group(root, *group, *hierarchy));
    }
  }
  return found;
}

}  // namespace

// A container may see a group that is not below what is mounted there. The mounted group is then
// the container's own or one above it. If the group itself is mounted somewhere, however, other
// mounts may be those of other containers.
void visit_control_groups(
    const fs::path& root, std::string_view controller,
    const std::function<void(const fs::path& folder, ControlGroupVersion version)>& visit) {
  const std::vector<MountedGroup> groups = mounted_groups(root, controller);
  for (const MountedGroup& group : groups) {
    const bool better = group.outside && std::ranges::any_of(groups, [&](const auto& other) {
                          return other.version == group.version && !other.outside;
                        });
    if (better) continue;
    for (fs::path below = group.below;; below = below.parent_path()) {
      visit(group.top / below, group.version);
      if (below.empty()) break;
    }
  }
}

}  // namespace neuronmm
