#include "io/mapped_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/mistaken_files.h"

namespace neuronmm::io {
namespace {

// The mappings that the handler of SIGBUS searches. The handler may run on any thread at any time,
// so the table has a fixed size and no locks. If the table is full, the message does not name the
// file.
struct Mapping {
  // Null if the entry is free.
  std::atomic<const std::byte*> begin = nullptr;
  std::atomic<size_t> size = 0;
  // Longer names are cut.
  std::array<char, 512> name{};
};
constexpr size_t kMaxMappings = 1024;
std::array<Mapping, kMaxMappings> mappings;

// An entry is taken by its `begin`, in one atomic step. Its size is set last, and until then no
// address is inside the mapping.
void register_mapping(std::span<const std::byte> bytes, const std::string& name) {
  for (Mapping& mapping : mappings) {
    const std::byte* expected = nullptr;
    if (!mapping.begin.compare_exchange_strong(expected, bytes.data())) continue;
    mapping.name.fill('\0');
    std::memcpy(mapping.name.data(), name.data(), std::min(name.size(), mapping.name.size() - 1));
    mapping.size.store(bytes.size());
    return;
  }
}

// The size is cleared first, so that the handler never reads a name that is being replaced.
void forget_mapping(std::span<const std::byte> bytes) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin.load() != bytes.data()) continue;
    mapping.size.store(0);
    mapping.begin.store(nullptr);
    return;
  }
}

void print(const char* text) {
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
}

// The function runs in a signal handler. It may not allocate or lock, and it only calls write and
// _exit.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const std::byte* begin = mapping.begin.load();
    if (begin == nullptr || address < begin || address >= begin + mapping.size.load()) continue;
    print("neuronmm: ");
    print(mapping.name.data());
    print(": became shorter while it was read, or its disk failed\n");
    _exit(1);
  }
  // The address belongs to no mapped file. The instruction runs again, and the signal ends the
  // process.
  std::signal(signal, SIG_DFL);
}

// Maps the file's bytes. An empty file gives an empty span, because mmap refuses it.
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

void guard_mapped_reads() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

MappedFile::MappedFile(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes) {
  if (!bytes_.empty()) register_mapping(bytes_, name);
}

// The file is mapped instead of read, so that only the pages that are used come into memory.
Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK makes opening a named pipe return at once. The pipe is then refused as not regular.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return open_error(path, errno);
  const auto bytes = map(path, descriptor);
  // The mapping stays valid.
  close(descriptor);
  if (!bytes.ok()) return bytes.error();
  return std::shared_ptr<const MappedFile>(new MappedFile(*bytes, path.string()));
}

// The mapping is private and anonymous, so pages that are only read share one page of zeros.
Result<std::shared_ptr<const MappedFile>> MappedFile::zeros(int64_t size) {
  const auto length = static_cast<size_t>(size);
  void* const address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return fail("cannot map {} bytes of zeros: {}", size, std::generic_category().message(errno));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(std::span(static_cast<const std::byte*>(address), length), "zeros"));
}

// The system can read the pages from the file again, and does not count them as ours until then.
void MappedFile::release_pages() const {
  if (!bytes_.empty()) {
    madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
  }
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mapping(bytes_);
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace neuronmm::io
