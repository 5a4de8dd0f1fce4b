// A library to preload with LD_PRELOAD. It makes one system call of a program fail, or kills the
// program at this call. fault_sweep_test.cc uses it to show that no fault damages files.
//
// The library counts the calls of all processes that do something with a file or folder below the
// watched folder. What fails, and how, stands in the shared memory of fault_control.h.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fault_control.h"

namespace {

using namespace neuronmm::faults;

// Maps the shared memory with raw system calls, because those of the C library are counted.
FaultControl* open_control() {
  const char* const path = std::getenv(kControlVariable);
  if (path == nullptr) return nullptr;
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const memory = reinterpret_cast<void*>(syscall(
      SYS_mmap, nullptr, sizeof(FaultControl), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  syscall(SYS_close, file);
  return memory == MAP_FAILED ? nullptr : static_cast<FaultControl*>(memory);
}

FaultControl* control() {
  static FaultControl* const shared = open_control();
  return shared;
}

bool is_below(const char* path) {
  const char* const folder = control()->folder;
  return std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool counts(int descriptor) {
  if (control() == nullptr || descriptor < 0) return false;
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path) - 2);
  if (length <= 0) return false;
  std::strcpy(path + length, "/");
  return is_below(path);
}

bool counts(int at, const char* path) {
  if (control() == nullptr || path == nullptr) return false;
  if (path[0] == '/') return is_below(path);
  if (at != AT_FDCWD) return counts(at);
  char current[4096];
  if (syscall(SYS_getcwd, current, sizeof(current) - 1) <= 0) return false;
  return is_below(std::strcat(current, "/"));
}
bool counts(const char* path) { return counts(AT_FDCWD, path); }
bool counts(DIR* folder) { return counts(dirfd(folder)); }

enum class Fault { kNone, kError, kHalfOfBytes };

// Counts a call of the function `name` if it is `watched`, and returns how it has to fail. Sets
// errno for an error. If the call has to kill the process, this function does so.
Fault fault(bool watched, CallKind kind, const char* name) {
  if (!watched) return Fault::kNone;
  const long call = control()->calls.fetch_add(1) + 1;
  if (call <= kMaxCalls) control()->kinds[call - 1] = kind;
  if (call != control()->at) return Fault::kNone;
  std::strncpy(control()->failed, name, sizeof(control()->failed) - 1);
  if (control()->code == kHalf) return Fault::kHalfOfBytes;
  if (control()->code == kKill) {
    kill(getpid(), SIGKILL);
    pause();
  }
  errno = control()->code;
  return Fault::kError;
}

bool fails(bool watched, CallKind kind, const char* name) {
  return fault(watched, kind, name) == Fault::kError;
}

// Returns how many of `count` bytes a call may transfer, or -1 if it fails.
ssize_t allowed(bool watched, CallKind kind, const char* name, size_t count) {
  const Fault found = fault(watched, kind, name);
  if (found == Fault::kError) return -1;
  const size_t half = std::max(count / 2, std::min<size_t>(count, 1));
  return static_cast<ssize_t>(found == Fault::kHalfOfBytes ? half : count);
}

CallKind kind_of(int flags) {
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return changes ? CallKind::kCreate : CallKind::kOpen;
}

// Returns whether opening has to fail. Some file systems have no files without a name.
bool open_fails(bool watched, int flags, const char* name) {
  if (watched && (flags & O_TMPFILE) == O_TMPFILE) {
    control()->asked_for_unnamed_files = true;
    if (control()->no_unnamed_files) {
      errno = EOPNOTSUPP;
      return true;
    }
  }
  return fails(watched, kind_of(flags), name);
}

bool creates(const char* mode) { return std::strpbrk(mode, "wa") != nullptr; }

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define NEXT(name) static const auto next = real<decltype(&name)>(#name)
// Defines a function of the C library that calls the original one, except when it must fail and
// return `failure`. `watched` says whether the call concerns the watched folder.
#define INTERPOSE(result, name, parameters, kind, watched, arguments, failure) \
  extern "C" result name parameters {                                          \
    NEXT(name);                                                                \
    if (fails(watched, CallKind::kind, #name)) return failure;                 \
    return next arguments;                                                     \
  }
#define INTERPOSE_INT(name, parameters, kind, watched, arguments) \
  INTERPOSE(int, name, parameters, kind, watched, arguments, -1)
#define INTERPOSE_OPEN(name)                               \
  extern "C" int name(const char* path, int flags, ...) {  \
    NEXT(name);                                            \
    va_list list;                                          \
    va_start(list, flags);                                 \
    const mode_t mode = va_arg(list, mode_t);              \
    va_end(list);                                          \
    if (open_fails(counts(path), flags, #name)) return -1; \
    return next(path, flags, mode);                        \
  }
#define INTERPOSE_OPENAT(name)                                    \
  extern "C" int name(int at, const char* path, int flags, ...) { \
    NEXT(name);                                                   \
    va_list list;                                                 \
    va_start(list, flags);                                        \
    const mode_t mode = va_arg(list, mode_t);                     \
    va_end(list);                                                 \
    if (open_fails(counts(at, path), flags, #name)) return -1;    \
    return next(at, path, flags, mode);                           \
  }
#define INTERPOSE_FOPEN(name)                                                  \
  extern "C" FILE* name(const char* path, const char* mode) {                  \
    NEXT(name);                                                                \
    const CallKind kind = creates(mode) ? CallKind::kCreate : CallKind::kOpen; \
    return fails(counts(path), kind, #name) ? nullptr : next(path, mode);      \
  }
// Defines a function that transfers bytes.
#define INTERPOSE_BYTES(name, parameters, kind, arguments)                    \
  extern "C" ssize_t name parameters {                                        \
    NEXT(name);                                                               \
    const ssize_t most = allowed(counts(file), CallKind::kind, #name, count); \
    if (most < 0) return -1;                                                  \
    count = static_cast<size_t>(most);                                        \
    return next arguments;                                                    \
  }
#define INTERPOSE_MMAP(name)                                                           \
  extern "C" void* name(void* start, size_t size, int protection, int flags, int file, \
                        off_t offset) {                                                \
    NEXT(name);                                                                        \
    const bool watched = (flags & MAP_ANONYMOUS) == 0 && counts(file);                 \
    if (fails(watched, CallKind::kMap, #name)) return MAP_FAILED;                      \
    return next(start, size, protection, flags, file, offset);                         \
  }
#define INTERPOSE_READDIR(name, type)                                              \
  extern "C" type* name(DIR* folder) {                                             \
    NEXT(name);                                                                    \
    return fails(counts(folder), CallKind::kList, #name) ? nullptr : next(folder); \
  }

INTERPOSE_OPEN(open)
INTERPOSE_OPEN(open64)
INTERPOSE_OPENAT(openat)
INTERPOSE_OPENAT(openat64)
INTERPOSE_FOPEN(fopen)
INTERPOSE_FOPEN(fopen64)
INTERPOSE(DIR*, opendir, (const char* path), kOpen, counts(path), (path), nullptr)
INTERPOSE_READDIR(readdir, dirent)
INTERPOSE_READDIR(readdir64, dirent64)
INTERPOSE_BYTES(read, (int file, void* bytes, size_t count), kRead, (file, bytes, count))
INTERPOSE_BYTES(pread, (int file, void* bytes, size_t count, off_t offset), kRead,
                (file, bytes, count, offset))
INTERPOSE_BYTES(pread64, (int file, void* bytes, size_t count, off64_t offset), kRead,
                (file, bytes, count, offset))
INTERPOSE_BYTES(write, (int file, const void* bytes, size_t count), kWrite, (file, bytes, count))
INTERPOSE_BYTES(pwrite, (int file, const void* bytes, size_t count, off_t offset), kWrite,
                (file, bytes, count, offset))
INTERPOSE_BYTES(pwrite64, (int file, const void* bytes, size_t count, off64_t offset), kWrite,
                (file, bytes, count, offset))
INTERPOSE(ssize_t, writev, (int file, const iovec* parts, int count), kWrite, counts(file),
          (file, parts, count), -1)
INTERPOSE_INT(ftruncate, (int file, off_t length), kWrite, counts(file), (file, length))
INTERPOSE_INT(ftruncate64, (int file, off64_t length), kWrite, counts(file), (file, length))
INTERPOSE_INT(fsync, (int file), kSync, counts(file), (file))
INTERPOSE_INT(fdatasync, (int file), kSync, counts(file), (file))
INTERPOSE_MMAP(mmap)
INTERPOSE_MMAP(mmap64)
INTERPOSE_INT(flock, (int file, int operation), kLock, counts(file), (file, operation))
INTERPOSE_INT(stat, (const char* path, struct stat* status), kStatus, counts(path), (path, status))
INTERPOSE_INT(lstat, (const char* path, struct stat* status), kStatus, counts(path), (path, status))
INTERPOSE_INT(fstat, (int file, struct stat* status), kStatus, counts(file), (file, status))
INTERPOSE_INT(fstatat, (int at, const char* path, struct stat* status, int flags), kStatus,
              counts(at, path), (at, path, status, flags))
INTERPOSE_INT(stat64, (const char* path, struct stat64* status), kStatus, counts(path),
              (path, status))
INTERPOSE_INT(lstat64, (const char* path, struct stat64* status), kStatus, counts(path),
              (path, status))
INTERPOSE_INT(fstat64, (int file, struct stat64* status), kStatus, counts(file), (file, status))
INTERPOSE_INT(fstatat64, (int at, const char* path, struct stat64* status, int flags), kStatus,
              counts(at, path), (at, path, status, flags))
INTERPOSE_INT(statx, (int at, const char* path, int flags, unsigned mask, struct statx* status),
              kStatus, counts(at, path), (at, path, flags, mask, status))
INTERPOSE_INT(statvfs, (const char* path, struct statvfs* status), kStatus, counts(path),
              (path, status))
INTERPOSE_INT(access, (const char* path, int mode), kStatus, counts(path), (path, mode))
INTERPOSE(ssize_t, readlink, (const char* path, char* target, size_t size), kStatus, counts(path),
          (path, target, size), -1)
INTERPOSE(char*, realpath, (const char* path, char* resolved), kStatus, counts(path),
          (path, resolved), nullptr)
INTERPOSE_INT(chmod, (const char* path, mode_t mode), kMode, counts(path), (path, mode))
INTERPOSE_INT(fchmod, (int file, mode_t mode), kMode, counts(file), (file, mode))
INTERPOSE_INT(rename, (const char* from, const char* to), kName, counts(from), (from, to))
INTERPOSE_INT(renameat, (int from_at, const char* from, int to_at, const char* to), kName,
              counts(from_at, from), (from_at, from, to_at, to))
INTERPOSE_INT(renameat2, (int from_at, const char* from, int to_at, const char* to, unsigned flags),
              kName, counts(from_at, from), (from_at, from, to_at, to, flags))
INTERPOSE_INT(link, (const char* from, const char* to), kName, counts(to), (from, to))
INTERPOSE_INT(linkat, (int from_at, const char* from, int to_at, const char* to, int flags), kName,
              counts(to_at, to), (from_at, from, to_at, to, flags))
INTERPOSE_INT(symlink, (const char* target, const char* path), kName, counts(path), (target, path))
INTERPOSE_INT(unlink, (const char* path), kRemove, counts(path), (path))
INTERPOSE_INT(unlinkat, (int at, const char* path, int flags), kRemove, counts(at, path),
              (at, path, flags))
INTERPOSE_INT(remove, (const char* path), kRemove, counts(path), (path))
INTERPOSE_INT(rmdir, (const char* path), kRemove, counts(path), (path))
INTERPOSE_INT(mkdir, (const char* path, mode_t mode), kMakeFolder, counts(path), (path, mode))
INTERPOSE_INT(mkdirat, (int at, const char* path, mode_t mode), kMakeFolder, counts(at, path),
              (at, path, mode))

// The system frees the number of a file even if closing it fails.
extern "C" int close(int file) {
  NEXT(close);
  const bool failed = fails(counts(file), CallKind::kClose, "close");
  const int code = errno;
  const int result = next(file);
  if (!failed) return result;
  errno = code;
  return -1;
}
