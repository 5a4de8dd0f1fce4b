#include "io/atomic_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace neuronmm::io {
namespace {

Error write_error(const std::filesystem::path& path, int code) {
  return fail("{}: cannot be written: {}", path.string(), std::generic_category().message(code));
}

std::filesystem::path temporary_of(const std::filesystem::path& path) {
  return path.string().append(kTemporarySuffix);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}
AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    abandon();
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}
AtomicFile::~AtomicFile() { abandon(); }

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  constexpr int kMode = 0666;  // before the umask, as for every other program's files
  const int descriptor =
      ::open(temporary_of(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (descriptor < 0) return write_error(path, errno);
  return AtomicFile(path, descriptor);
}

Status AtomicFile::append(std::span<const std::byte> bytes) {
  if (descriptor_ < 0) return fail("{}: is closed after an earlier error", path_.string());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return give_up(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status AtomicFile::finish() {
  if (descriptor_ < 0) return fail("{}: is closed after an earlier error", path_.string());
  if (fsync(descriptor_) != 0) return give_up(errno);
  if (close(std::exchange(descriptor_, -1)) != 0) return give_up(errno);
  if (rename(temporary().c_str(), path_.c_str()) != 0) return give_up(errno);
  return {};
}

std::filesystem::path AtomicFile::temporary() const { return temporary_of(path_); }

Error AtomicFile::give_up(int code) {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  unlink(temporary().c_str());
  return write_error(path_, code);
}

void AtomicFile::abandon() {
  if (descriptor_ < 0) return;
  close(std::exchange(descriptor_, -1));
  unlink(temporary().c_str());
}

}  // namespace neuronmm::io
