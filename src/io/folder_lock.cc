#include "io/folder_lock.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/interrupt.h"

namespace neuronmm::io {

Result<FolderLock> FolderLock::wait(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return fail("{}: cannot be read: {}", folder.string(), std::generic_category().message(errno));
  }
  FolderLock lock(descriptor);
  while (flock(descriptor, LOCK_EX) != 0) {
    // The file system has no locks, so the work goes on without one.
    if (errno != EINTR) break;
    if (interrupted()) return interrupted_error("nothing was changed in " + folder.string());
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}
FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace neuronmm::io
