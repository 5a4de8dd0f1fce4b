#include "kernel/trace_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/notices.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "neuronmm-nki-";
constexpr std::string_view kUnique = "XXXXXX";  // mkdtemp() replaces it

Status delete_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) return {};
  return fail("{}: the temporary folder cannot be deleted: {}", folder.string(), error.message());
}

// Returns whether the folder holds nothing but traces, whole or half written, and their reports. A
// folder of somebody else may have a similar name.
bool holds_traces_only(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool ours = name.starts_with("kernel.trace") || name.starts_with("other.trace") ||
                      name.starts_with(".nki_trace.");
    if (!ours) return false;
  }
  return !error;
}

// Opens and locks a folder of this user. Returns -1 if it is something else, if a living process
// holds it, or if it is gone.
int lock_own_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return -1;
  struct stat opened {};
  struct stat named {};
  const bool ours = fstat(descriptor, &opened) == 0 && opened.st_uid == geteuid() &&
                    flock(descriptor, LOCK_EX | LOCK_NB) == 0 &&
                    lstat(folder.c_str(), &named) == 0 && named.st_ino == opened.st_ino;
  if (ours) return descriptor;
  close(descriptor);
  return -1;
}

void delete_abandoned(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kUnique.size()) continue;
    const int lock = lock_own_folder(entry->path());
    if (lock < 0) continue;
    if (holds_traces_only(entry->path())) {
      const Status deleted = delete_folder(entry->path());
      if (!deleted.ok()) notify(deleted.error().message);
    }
    close(lock);
  }
}

}  // namespace

// Before the new folder is locked, another process may take it for abandoned and delete it. Another
// one is then made.
Result<TraceFolder> TraceFolder::create() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return fail("$TMPDIR: expected a folder for temporary files: {}", error.message());
  delete_abandoned(parent);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    std::string name = (parent / std::string(kPrefix).append(kUnique)).string();
    if (mkdtemp(name.data()) == nullptr) {
      return fail("{}: a temporary folder cannot be made: {}", name,
                  std::generic_category().message(errno));
    }
    if (const int lock = lock_own_folder(name); lock >= 0) return TraceFolder(name, lock);
    rmdir(name.c_str());
  }
  return fail("{}: a temporary folder cannot be locked", parent.string());
}

TraceFolder::TraceFolder(fs::path path, int lock) : path_(std::move(path)), lock_(lock) {}
TraceFolder::TraceFolder(TraceFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}
TraceFolder::~TraceFolder() {
  const Status removed = remove();
  if (!removed.ok()) notify(removed.error().message + "; the next run will delete it");
  if (lock_ >= 0) close(lock_);
}

Status TraceFolder::remove() {
  if (path_.empty()) return {};
  NMM_TRY(delete_folder(path_));
  path_.clear();
  return {};
}

}  // namespace neuronmm::apps
