#include "io/text_file.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <span>
#include <system_error>

#include "io/atomic_file.h"
#include "io/gguf.h"

namespace neuronmm::io {

namespace fs = std::filesystem;

Status write_text_file(const fs::path& path, std::string_view text) {
  NMM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  NMM_TRY(file.append(std::as_bytes(std::span(text))));
  return file.finish();
}

Result<std::string> read_text_file(const fs::path& path) {
  NMM_TRY(refuse_gguf(path, "a text"));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  std::string text;
  size_t filled = 0;
  while (file != nullptr) {
    constexpr size_t kPiece = 1 << 16;
    text.resize(filled + kPiece);
    const size_t count = std::fread(text.data() + filled, 1, kPiece, file.get());
    filled += count;
    if (count < kPiece) break;
  }
  if (file == nullptr || std::ferror(file.get()))
    return fail("{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  text.resize(filled);
  return text;
}

}  // namespace neuronmm::io
