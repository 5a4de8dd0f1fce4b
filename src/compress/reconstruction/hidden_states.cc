#include "compress/reconstruction/hidden_states.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace neuronmm::compress {
namespace {

Error file_error(const std::filesystem::path& name, const char* what, int code) {
  return fail("{}: cannot {} the file of hidden states: {}{}", name.string(), what,
              std::strerror(code),
              code == ENOSPC ? "; fewer tokens to learn from need less space" : "");
}

// Calls `move` (pread or pwrite) until all bytes are moved. Returns an error number, or 0.
template <typename Move, typename Byte>
int move_all(const Move& move, int file, Byte* data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t moved = move(file, data, static_cast<size_t>(bytes), offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return EIO;  // the file is shorter than what was written to it
    data += moved;
    offset += moved;
    bytes -= moved;
  }
  return 0;
}

}  // namespace

Result<HiddenStates> HiddenStates::create(int64_t tokens, int64_t width,
                                          const std::filesystem::path& file) {
  HiddenStates states(width, file);
  if (file.empty()) {
    states.rows_ = training::Rows<float>(tokens, width);
    return states;
  }
  states.file_ = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (states.file_ < 0 || unlink(file.c_str()) != 0) return file_error(file, "make", errno);
  int code = 0;
  do {
    code = posix_fallocate(states.file_, 0, tokens * states.row_bytes());
  } while (code == EINTR);
  // File systems that cannot reserve space report a full disk when they are written to.
  if (code != 0 && code != EOPNOTSUPP && code != EINVAL) return file_error(file, "make", code);
  return states;
}

HiddenStates::HiddenStates(HiddenStates&& other) noexcept
    : width_(other.width_),
      name_(std::move(other.name_)),
      file_(std::exchange(other.file_, -1)),
      rows_(std::move(other.rows_)) {}

HiddenStates::~HiddenStates() {
  if (file_ >= 0) close(file_);
}

Result<training::Rows<float>> HiddenStates::read(int64_t first, int64_t count) const {
  if (file_ < 0) return training::copy_of<float>(rows_.view().row_range(first, count));
  training::Rows<float> rows(count, width_);
  const int code = move_all(pread, file_, reinterpret_cast<char*>(rows.data()), count * row_bytes(),
                            first * row_bytes());
  if (code != 0) return file_error(name_, "read", code);
  return rows;
}

Status HiddenStates::write(int64_t first, MatrixView<const float> rows) {
  NMM_CHECK(rows.columns == width_ && rows.stride == width_);
  if (file_ < 0) {
    std::memcpy(rows_.row(first), rows.data, static_cast<size_t>(rows.rows * row_bytes()));
    return {};
  }
  const int code = move_all(pwrite, file_, reinterpret_cast<const char*>(rows.data),
                            rows.rows * row_bytes(), first * row_bytes());
  if (code != 0) return file_error(name_, "write", code);
  return {};
}

}  // namespace neuronmm::compress
