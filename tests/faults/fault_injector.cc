// A library to preload with LD_PRELOAD. It makes one system call of a program fail, or kills the
// program at this call. fault_sweep_test.cc uses it to show that no fault damages files.
//
// The library counts the calls that open, write, sync, rename, link, make or remove something below
// $NEURONMM_FAULT_FOLDER. Counting starts at 1. Call number $NEURONMM_FAULT_AT fails with the error
// $NEURONMM_FAULT_ERRNO. If that error is 0, the process is killed instead, before the call. When
// the process ends or is killed, the file $NEURONMM_FAULT_REPORT receives "COUNT NAME". COUNT is
// the number of calls so far, and NAME is the call that failed, or "none".

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

std::atomic<long> calls{0};
std::atomic<const char*> failed{"none"};

const char* folder() {
  static const char* const path = std::getenv("NEURONMM_FAULT_FOLDER");
  return path;
}
long number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atol(text);
}

// Writes the report file with raw system calls, because they are not counted.
void report() {
  const char* const path = std::getenv("NEURONMM_FAULT_REPORT");
  if (path == nullptr) return;
  char text[64];
  const int length = std::snprintf(text, sizeof(text), "%ld %s\n", calls.load(), failed.load());
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) return;
  syscall(SYS_write, file, text, length);
  syscall(SYS_close, file);
}

struct ReportAtExit {
  ~ReportAtExit() { report(); }
} report_at_exit;

bool is_below(const char* path) {
  return folder() != nullptr && std::strncmp(path, folder(), std::strlen(folder())) == 0;
}

bool descriptor_counts(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return is_below(path);
}

bool path_counts(int at, const char* path) {
  if (path[0] == '/') return is_below(path);
  if (at != AT_FDCWD) return descriptor_counts(at);
  char current[4096];
  if (getcwd(current, sizeof(current) - 1) == nullptr) return false;
  return is_below(std::strcat(current, "/"));
}

// Returns whether the current call, to the function `name`, must fail. Sets errno in that case.
// Only calls with `counts` are counted. If the call must kill the process, this function does so.
bool fails(bool counts, const char* name) {
  if (!counts) return false;
  static const long at = number("NEURONMM_FAULT_AT");
  static const long code = number("NEURONMM_FAULT_ERRNO");
  if (calls.fetch_add(1) + 1 != at) return false;
  failed.store(name);
  if (code == 0) {
    report();
    kill(getpid(), SIGKILL);
    pause();
  }
  errno = static_cast<int>(code);
  return true;
}

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define NEXT(name) static const auto next = real<decltype(&name)>(#name)
// Defines a function of the C library that calls the original one, except when it must fail.
// `counts` says whether the call concerns the watched folder.
#define INTERPOSE(result, name, parameters, counts, arguments) \
  extern "C" result name parameters {                          \
    NEXT(name);                                                \
    if (fails(counts, #name)) return -1;                       \
    return next arguments;                                     \
  }
#define INTERPOSE_OPEN(name)                                  \
  extern "C" int name(const char* path, int flags, ...) {     \
    NEXT(name);                                               \
    va_list list;                                             \
    va_start(list, flags);                                    \
    const mode_t mode = va_arg(list, mode_t);                 \
    va_end(list);                                             \
    if (fails(path_counts(AT_FDCWD, path), #name)) return -1; \
    return next(path, flags, mode);                           \
  }
#define INTERPOSE_OPENAT(name)                                    \
  extern "C" int name(int at, const char* path, int flags, ...) { \
    NEXT(name);                                                   \
    va_list list;                                                 \
    va_start(list, flags);                                        \
    const mode_t mode = va_arg(list, mode_t);                     \
    va_end(list);                                                 \
    if (fails(path_counts(at, path), #name)) return -1;           \
    return next(at, path, flags, mode);                           \
  }

INTERPOSE_OPEN(open)
INTERPOSE_OPEN(open64)
INTERPOSE_OPENAT(openat)
INTERPOSE_OPENAT(openat64)
INTERPOSE(ssize_t, write, (int file, const void* bytes, size_t count), descriptor_counts(file),
          (file, bytes, count))
INTERPOSE(ssize_t, pwrite, (int file, const void* bytes, size_t count, off_t offset),
          descriptor_counts(file), (file, bytes, count, offset))
INTERPOSE(ssize_t, writev, (int file, const iovec* parts, int count), descriptor_counts(file),
          (file, parts, count))
INTERPOSE(int, fsync, (int file), descriptor_counts(file), (file))
INTERPOSE(int, fdatasync, (int file), descriptor_counts(file), (file))
INTERPOSE(int, ftruncate, (int file, off_t length), descriptor_counts(file), (file, length))
INTERPOSE(int, rename, (const char* from, const char* to), path_counts(AT_FDCWD, from), (from, to))
INTERPOSE(int, renameat, (int from_at, const char* from, int to_at, const char* to),
          path_counts(from_at, from), (from_at, from, to_at, to))
INTERPOSE(int, renameat2,
          (int from_at, const char* from, int to_at, const char* to, unsigned flags),
          path_counts(from_at, from), (from_at, from, to_at, to, flags))
INTERPOSE(int, link, (const char* from, const char* to), path_counts(AT_FDCWD, to), (from, to))
INTERPOSE(int, linkat, (int from_at, const char* from, int to_at, const char* to, int flags),
          path_counts(to_at, to), (from_at, from, to_at, to, flags))
INTERPOSE(int, symlink, (const char* target, const char* path), path_counts(AT_FDCWD, path),
          (target, path))
INTERPOSE(int, unlink, (const char* path), path_counts(AT_FDCWD, path), (path))
INTERPOSE(int, unlinkat, (int at, const char* path, int flags), path_counts(at, path),
          (at, path, flags))
INTERPOSE(int, remove, (const char* path), path_counts(AT_FDCWD, path), (path))
INTERPOSE(int, rmdir, (const char* path), path_counts(AT_FDCWD, path), (path))
INTERPOSE(int, mkdir, (const char* path, mode_t mode), path_counts(AT_FDCWD, path), (path, mode))
INTERPOSE(int, mkdirat, (int at, const char* path, mode_t mode), path_counts(at, path),
          (at, path, mode))
