#pragma once
// Finds the folders that hold the limits of Linux's control groups, of version 1, version 2, or
// both at once. base/memory_limit.h and base/cpu_quota.h read the limits there.

#include <filesystem>
#include <functional>
#include <string_view>

namespace neuronmm {

enum class ControlGroupVersion { kOne, kTwo };

// Calls visit(folder, version) for the control group that this process is in and for every group
// above it that is mounted, in each mounted hierarchy that may have the controller ("memory",
// "cpu"). Folders may lack the files of the controller. Nothing is visited if /proc cannot be read
// or makes no sense. `root` is the root of the file system; tests pass a folder.
void visit_control_groups(const std::filesystem::path& root, std::string_view controller,
                          const std::function<void(const std::filesystem::path& folder,
                                                   ControlGroupVersion version)>& visit);

}  // namespace neuronmm
