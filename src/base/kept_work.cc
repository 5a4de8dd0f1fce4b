#include "base/kept_work.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <fmt/format.h>

#include "base/printable.h"

namespace neuronmm {
namespace {

// Bytes of a text. A longer one is cut off. Paths have at most 4096 text_bytes.
constexpr size_t kMaxText = 8192;

// The text lies in memory that is never freed, because a signal handler of another thread may read
// it while its owner is destroyed.
std::array<char, kMaxText> text_bytes;
std::atomic<size_t> text_length{0};
static_assert(std::atomic<size_t>::is_always_lock_free, "must be safe in a signal handler");

void set_text(std::string_view value) {
  text_length.store(0);
  const size_t size = std::min(value.size(), text_bytes.size());
  std::copy_n(value.begin(), size, text_bytes.begin());
  text_length.store(size);
}

}  // namespace

KeptWork::KeptWork(const std::string& where, const std::string& how) : before_(kept_work_text()) {
  set_text(fmt::format("what is finished is kept in {}; {}", printable(where), how));
}

KeptWork::~KeptWork() { set_text(before_); }

std::string_view kept_work_text() { return {text_bytes.data(), text_length.load()}; }

}  // namespace neuronmm
