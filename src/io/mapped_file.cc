#include "io/mapped_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace neuronmm::io {
namespace {

Error open_error(const std::filesystem::path& path, int code) {
  return fail("{}: cannot be read: {}", path.string(), std::generic_category().message(code));
}

// The file's bytes; an empty file maps to an empty span, which mmap itself refuses.
Result<std::span<const std::byte>> map(const std::filesystem::path& path, int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return open_error(path, errno);
  if (!S_ISREG(status.st_mode)) return fail("{}: expected a regular file", path.string());
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::span<const std::byte>();
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) return open_error(path, errno);
  return std::span(static_cast<const std::byte*>(address), size);
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a named pipe returns at once, to be refused as not a regular file.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return open_error(path, errno);
  const auto bytes = map(path, descriptor);
  close(descriptor);  // the mapping stays
  if (!bytes.ok()) return bytes.error();
  return std::shared_ptr<const MappedFile>(new MappedFile(*bytes));
}

// Private and anonymous: pages that are only read share one page of zeros.
Result<std::shared_ptr<const MappedFile>> MappedFile::zeros(int64_t size) {
  const auto length = static_cast<size_t>(size);
  void* const address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return fail("cannot map {} bytes of zeros: {}", size, std::generic_category().message(errno));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(std::span(static_cast<const std::byte*>(address), length)));
}

// The pages can be read again from the file at any time; until then they are not counted as ours.
void MappedFile::release_pages() const {
  if (!bytes_.empty()) {
    madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace neuronmm::io
