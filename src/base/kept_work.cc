#include "base/kept_work.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <fmt/format.h>

#include "base/printable.h"

namespace neuronmm {
namespace {

// Bytes of a text; a longer one is cut off. Paths have at most 4096 bytes.
constexpr size_t kMaxText = 8192;

// The text lies in memory that is never freed, because a signal handler of another thread may read
// it while its owner is destroyed.
std::array<char, kMaxText> kept_text;
std::atomic<size_t> kept_length{0};
static_assert(std::atomic<size_t>::is_always_lock_free, "must be safe in a signal handler");

void set_text(std::string_view value) {
  kept_length.store(0);
  const size_t size = std::min(value.size(), kept_text.size());
  std::copy_n(value.begin(), size, kept_text.begin());
  kept_length.store(size);
}

}  // namespace

KeptWork::KeptWork(const std::string& where, const std::string& how) : before_(kept_work_text()) {
  set_text(fmt::format("what is finished is kept in {}; {}", printable(where), how));
}

KeptWork::~KeptWork() { set_text(before_); }

std::string_view kept_work_text() { return {kept_text.data(), kept_length.load()}; }

}  // namespace neuronmm
