#include "io/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/notices.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryEnding = ".neuronmm";
// The digits of the number that makes a temporary file's name unique.
constexpr size_t kDigits = 16;
// The part of the file's name that a temporary name contains. File systems allow 255 bytes in all.
constexpr size_t kMaxNameInName = 200;

// Deletes a temporary file. A file that stays is no error, because the next writer deletes it.
void delete_temporary(const fs::path& temporary) {
  if (unlink(temporary.c_str()) == 0 || errno == ENOENT) return;
  notify(fmt::format("{}: cannot be deleted: {}; the next run for this output will delete it",
                     temporary.string(), std::generic_category().message(errno)));
}

// The message has the name that the user knows, not that of the temporary file.
Error write_error(const fs::path& path, int code) {
  return fail("{}: cannot be written: {}", path.string(), std::generic_category().message(code));
}

Error interrupted_write(const fs::path& path) {
  return interrupted_error(fmt::format("{} was not written", path.string()));
}

std::string temporary_prefix(const fs::path& path) {
  return fmt::format(".{}.", path.filename().string().substr(0, kMaxNameInName));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The time and the process number give different names to two writers of one file at the same
// moment.
std::string unique_digits() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{:016x}",
                     static_cast<uint64_t>(now) ^ (static_cast<uint64_t>(getpid()) << 44));
}

// Writers lock their temporary files, so a temporary file that can be locked has no writer.
void remove_stale_temporaries(const fs::path& path) {
  const std::string prefix = temporary_prefix(path);
  std::error_code error;
  for (fs::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !is_temporary_name(name)) continue;
    if (name.size() != prefix.size() + kDigits + kTemporaryEnding.size()) continue;
    const int stale = ::open(entry->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (stale < 0) continue;
    struct stat status {};
    const bool file = fstat(stale, &status) == 0 && S_ISREG(status.st_mode);
    if (file && flock(stale, LOCK_EX | LOCK_NB) == 0) delete_temporary(entry->path());
    close(stale);
  }
}

fs::path temporary_name(const fs::path& path) {
  return folder_of(path) /
         (temporary_prefix(path) + unique_digits() + std::string(kTemporaryEnding));
}

struct Temporary {
  fs::path path;  // empty if the file has no name
  int descriptor = -1;
};

// Creates a new file that only this process writes, and locks it. Between its creation and its
// lock, another process may take the file for stale and remove it. The file then has no name, and
// another one is created.
Result<Temporary> create_named(const fs::path& path, mode_t mode) {
  while (true) {
    const fs::path name = temporary_name(path);
    const int descriptor =
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) return write_error(path, errno);
    // On file systems without locks, stale files are kept.
    flock(descriptor, LOCK_EX | LOCK_NB);
    struct stat status {};
    if (fstat(descriptor, &status) != 0) {
      const int code = errno;
      close(descriptor);
      delete_temporary(name);
      return write_error(path, code);
    }
    if (status.st_nlink > 0) return Temporary{name, descriptor};
    close(descriptor);
  }
}

// A path that leads to the open file, even if the file has no name.
fs::path path_of_descriptor(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

// Gives an open file without a name this name. Returns 0 or an errno value.
int link_descriptor(int descriptor, const fs::path& name) {
  const fs::path file = path_of_descriptor(descriptor);
  const bool linked =
      linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  return linked ? 0 : errno;
}

// Creates a file without a name. The lock counts once the file has a temporary name. If the file
// system or the kernel has no such files, or without /proc, a file with a name is created.
Result<Temporary> create_temporary(const fs::path& path, mode_t mode) {
  const int descriptor = ::open(folder_of(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
  const int code = descriptor < 0 ? errno : 0;
  if (code == EOPNOTSUPP || code == EISDIR || code == EINVAL || code == ENOENT) {
    return create_named(path, mode);
  }
  if (descriptor < 0) return write_error(path, code);
  if (access(path_of_descriptor(descriptor).c_str(), F_OK) != 0) {
    close(descriptor);
    return create_named(path, mode);
  }
  flock(descriptor, LOCK_EX | LOCK_NB);
  return Temporary{{}, descriptor};
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Returns the descriptor of standard output or error if the path leads to that file. Replacing such
// a file would lose what the command prints there.
std::optional<int> standard_stream(const struct stat& target) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status {};
    if (fstat(descriptor, &status) == 0 && same_file(status, target)) return descriptor;
  }
  return std::nullopt;
}

Result<int> open_stream(const fs::path& path) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor >= 0) return descriptor;
    if (errno != EINTR) return write_error(path, errno);
    if (interrupted()) return interrupted_write(path);
  }
}

}  // namespace

// The name is long enough not to belong to another program's file.
bool is_temporary_name(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporaryEnding)) return false;
  name.remove_suffix(kTemporaryEnding.size());
  if (name.size() < kDigits + 2 || name[name.size() - kDigits - 1] != '.') return false;
  const std::string_view digits = name.substr(name.size() - kDigits);
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A new name is on disk only after its folder was synced.
Status sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return write_error(folder, errno);
  const int code = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  if (code == 0 || code == EINVAL || code == ENOTSUP) return {};
  return write_error(folder, code);
}

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail("{}: cannot be created: {}", folder.string(), error.message());
  return {};
}

AtomicFile::AtomicFile(fs::path path, fs::path temporary, int descriptor, bool in_place)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      in_place_(in_place),
      descriptor_(descriptor) {}
AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      in_place_(other.in_place_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}
AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    abandon();
    path_ = std::move(other.path_);
    temporary_ = std::move(other.temporary_);
    in_place_ = other.in_place_;
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}
AtomicFile::~AtomicFile() { abandon(); }

// Replacing a terminal, a pipe or a device makes no sense, so these are written to directly.
Result<AtomicFile> AtomicFile::create(const fs::path& path) {
  struct stat status {};
  fs::path target = path;
  // The mode before the umask, as for the files of other programs.
  mode_t mode = 0666;
  if (stat(path.c_str(), &status) == 0) {
    if (const auto stream = standard_stream(status)) {
      const int copy = fcntl(*stream, F_DUPFD_CLOEXEC, 0);
      if (copy < 0) return write_error(path, errno);
      return AtomicFile(path, {}, copy, true);
    }
    if (S_ISDIR(status.st_mode))
      return fail("{}: expected a file to write, found a folder", path.string());
    if (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)) {
      NMM_ASSIGN(const int descriptor, open_stream(path));
      return AtomicFile(path, {}, descriptor, true);
    }
    if (!S_ISREG(status.st_mode)) {
      return fail("{}: expected a file to write, found a disk or a socket", path.string());
    }
    if (access(path.c_str(), W_OK) != 0) return write_error(path, errno);
    std::error_code error;
    target = fs::canonical(path, error);
    if (error) return write_error(path, error.value());
    mode = status.st_mode & 07777;
  } else if (lstat(path.c_str(), &status) == 0) {
    return fail("{}: expected a file to write, found a link to nothing", path.string());
  }
  remove_stale_temporaries(target);
  NMM_ASSIGN(Temporary temporary, create_temporary(target, mode));
  // The umask does not change the mode of a replaced file.
  if (mode != 0666) fchmod(temporary.descriptor, mode);
  return AtomicFile(std::move(target), std::move(temporary.path), temporary.descriptor, false);
}

// A write may take fewer bytes than it was given, or a signal may interrupt it.
Status AtomicFile::append(std::span<const std::byte> bytes) {
  if (descriptor_ < 0) return fail("{}: is closed after an earlier error", path_.string());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      if (!interrupted()) continue;
      abandon();
      return interrupted_write(path_);
    }
    if (written < 0) return abandon_with_error(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status AtomicFile::finish() {
  if (descriptor_ < 0) return fail("{}: is closed after an earlier error", path_.string());
  if (in_place_) {
    if (close(std::exchange(descriptor_, -1)) != 0) return write_error(path_, errno);
    return {};
  }
  // The bytes reach the disk before the name does. After a crash, the old file or the new one is
  // there.
  if (fsync(descriptor_) != 0) return abandon_with_error(errno);
  // The file gets its name while it is still open, so that it is locked as long as it has a
  // temporary name.
  if (const int code = give_name(); code != 0) return abandon_with_error(code);
  if (close(std::exchange(descriptor_, -1)) != 0) return write_error(path_, errno);
  return sync_folder(folder_of(path_));
}

Result<Inode> AtomicFile::inode() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return write_error(path_, errno);
  return Inode{status.st_dev, status.st_ino};
}

// Gives the file its name. Returns 0 or an errno value. A link never replaces a file, so an
// existing file is replaced by way of a temporary name.
int AtomicFile::give_name() {
  if (temporary_.empty()) {
    const int code = link_descriptor(descriptor_, path_);
    if (code != EEXIST) return code;
    const fs::path name = temporary_name(path_);
    if (const int failed = link_descriptor(descriptor_, name); failed != 0) return failed;
    temporary_ = name;
  }
  return rename(temporary_.c_str(), path_.c_str()) == 0 ? 0 : errno;
}

Error AtomicFile::abandon_with_error(int code) {
  abandon();
  lost_its_reader_ = code == EPIPE;
  return write_error(path_, code);
}

// Removes the temporary file, because a file that is not finished must not stay.
void AtomicFile::abandon() {
  if (descriptor_ < 0) return;
  if (!temporary_.empty()) delete_temporary(temporary_);
  close(std::exchange(descriptor_, -1));
}

}  // namespace neuronmm::io
