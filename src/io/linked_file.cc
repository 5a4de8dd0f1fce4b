#include "io/linked_file.h"

#include <fstream>
#include <span>
#include <system_error>
#include <vector>

#include "base/interrupt.h"
#include "io/atomic_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

constexpr std::streamsize kPieceBytes = 8 << 20;

Status copy_bytes(const fs::path& from, const fs::path& to) {
  std::ifstream input(from, std::ios::binary);
  if (!input) return fail("{}: cannot be read", from.string());
  NMM_ASSIGN(AtomicFile output, AtomicFile::create(to));
  std::vector<char> piece(kPieceBytes);
  while (input) {
    if (interrupted()) return interrupted_error("nothing of it is kept");
    input.read(piece.data(), kPieceBytes);
    if (input.bad()) return fail("{}: cannot be read", from.string());
    const auto count = static_cast<size_t>(input.gcount());
    NMM_TRY(output.append(std::as_bytes(std::span(piece.data(), count))));
  }
  return output.finish();
}

}  // namespace

Status link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  // A link to a link would depend on both.
  const fs::path file = fs::canonical(from, error);
  if (error || !fs::is_regular_file(file, error)) {
    return fail("{}: expected a file, found {}", from.string(),
                error ? error.message() : "something else");
  }
  fs::create_hard_link(file, to, error);
  if (!error) return {};
  if (error == std::errc::file_exists) return fail("{}: already exists", to.string());
  return copy_bytes(file, to);
}

}  // namespace neuronmm::io
