#include "installed_files.h"

#include <system_error>

namespace neuronmm::apps {

namespace fs = std::filesystem;

Result<fs::path> find_installed(const InstalledFolder& folder) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe: cannot be read: {}", error.message());
  const fs::path beside = self.parent_path();
  const fs::path installed = (beside / "../share/neuronmm" / folder.name).lexically_normal();
  const fs::path built = beside / folder.link;
  for (const fs::path& place : {installed, built}) {
    if (fs::exists(place / folder.file, error)) return fs::weakly_canonical(place);
  }
  return fail(
      "{}: {} are missing: neither {} nor {} has {}; install neuronmm with `cmake --install "
      "BUILD`, or copy the folder {}/ of the source there",
      self.string(), folder.purpose, installed.string(), built.string(), folder.file,
      folder.source);
}

}  // namespace neuronmm::apps
