#include "io/text_file.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

#include "base/interrupt.h"
#include "io/atomic_file.h"
#include "io/gguf.h"
#include "io/mistaken_files.h"
#include "io/mounted_model.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

Error read_error(const std::string& name, int code) {
  return fail("{}: cannot be read: {}", name.empty() ? "\"\"" : name,
              std::generic_category().message(code));
}

Error too_large(const std::string& name, int64_t max_bytes) {
  return fail("{}: expected at most {} MB, found more", name, max_bytes >> 20);
}

// Closes a descriptor at the end of its scope, except standard input, output and error.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ > STDERR_FILENO) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

// Reads the rest of a file. A signal that interrupts the process ends the reading. The size of a
// pipe is not known in advance, so the buffer doubles.
Result<std::string> read_all(int descriptor, const std::string& name, int64_t max_bytes) {
  std::string text;
  size_t filled = 0;
  while (true) {
    constexpr size_t kPiece = 1 << 16;
    if (text.size() < filled + kPiece) text.resize(std::max(2 * filled, filled + kPiece));
    const ssize_t count = ::read(descriptor, text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) {
      if (!interrupted()) continue;
      return interrupted_error(fmt::format("{} was not read to its end", name));
    }
    if (count < 0) return read_error(name, errno);
    if (count == 0) break;
    filled += static_cast<size_t>(count);
    if (std::cmp_greater(filled, max_bytes)) return too_large(name, max_bytes);
  }
  text.resize(filled);
  return text;
}

// O_NONBLOCK makes opening a pipe return at once, so that its type can be checked.
Result<int> open_to_read(const fs::path& path, struct stat& status) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return open_error(path, errno);
  if (fstat(descriptor, &status) == 0) return descriptor;
  const int code = errno;
  close(descriptor);
  return read_error(path.string(), code);
}

Error not_regular(const fs::path& path, mode_t mode) {
  return fail("{}: expected a regular file, found {}", path.string(),
              S_ISDIR(mode)    ? "a folder"
              : S_ISFIFO(mode) ? "a pipe"
                               : "a device or a socket");
}

// Returns the length of the prefix that is UTF-8. A character that the end of the text cuts off, as
// `head -c` does, counts as whole.
size_t characters_length(std::string_view text) {
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const size_t size = text.size();
  for (size_t at = 0; at < size;) {
    utf8proc_int32_t code_point = 0;
    const auto left = static_cast<utf8proc_ssize_t>(size - at);
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + at, left, &code_point);
    if (length < 1) return left < 4 && bytes[at] >= 0xC2 && bytes[at] <= 0xF4 ? size : at;
    at += static_cast<size_t>(length);
  }
  return size;
}

}  // namespace

Result<bool> is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) return read_error(path.string(), error.value());
  return type != fs::file_type::not_found || has_mounted_text(path);
}

Status write_text_file(const fs::path& path, std::string_view text) {
  NMM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  NMM_TRY(file.append(std::as_bytes(std::span(text))));
  return file.finish();
}

// A wrong path may lead to anything, so files must be regular and of a limited size.
Result<std::string> read_text_file(const fs::path& path, int64_t max_bytes) {
  struct stat status {};
  // The folder of a mounted model is a file.
  if (stat(path.c_str(), &status) != 0 && errno == ENOTDIR) {
    NMM_ASSIGN(auto text, mounted_text(path));
    if (text && std::cmp_greater(text->size(), max_bytes))
      return too_large(path.string(), max_bytes);
    if (text) return *std::move(text);
  }
  NMM_ASSIGN(const int number, open_to_read(path, status));
  const Descriptor descriptor(number);
  if (!S_ISREG(status.st_mode)) return not_regular(path, status.st_mode);
  if (status.st_size > max_bytes) return too_large(path.string(), max_bytes);
  return read_all(descriptor.get(), path.string(), max_bytes);
}

// The user may name a pipe, which is waited for, or standard input.
Result<std::string> read_user_text(const std::string& path_or_dash) {
  if (path_or_dash == "-") return read_all(STDIN_FILENO, "standard input", kMaxTextBytes);
  NMM_TRY(refuse_gguf(path_or_dash, "a text"));
  struct stat status {};
  if (stat(path_or_dash.c_str(), &status) != 0) return read_error(path_or_dash, errno);
  if (!S_ISFIFO(status.st_mode)) return read_text_file(path_or_dash, kMaxTextBytes);
  int number = -1;
  // The call waits until another process opens the pipe for writing.
  while ((number = ::open(path_or_dash.c_str(), O_RDONLY | O_CLOEXEC)) < 0) {
    if (errno != EINTR) return read_error(path_or_dash, errno);
    if (interrupted()) return interrupted_error(path_or_dash + " was not read");
  }
  const Descriptor descriptor(number);
  return read_all(descriptor.get(), path_or_dash, kMaxTextBytes);
}

Result<std::string> read_corpus(const std::string& path_or_dash) {
  NMM_ASSIGN(std::string text, read_user_text(path_or_dash));
  NMM_TRY(check_corpus(text, path_or_dash == "-" ? "standard input" : path_or_dash));
  return text;
}

Status check_corpus(std::string_view text, const std::string& source) {
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    return fail("{}: expected a text in UTF-8, found a NUL byte at {}, as UTF-16 has", source, nul);
  }
  const size_t wrong = characters_length(text);
  if (wrong == text.size()) return {};
  return fail("{}: expected a text in UTF-8, found the byte 0x{:02X} at {}", source,
              static_cast<unsigned char>(text[wrong]), wrong);
}

}  // namespace neuronmm::io
