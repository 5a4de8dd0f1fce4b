#include "memory_reserve.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

namespace neuronmm::apps {
namespace {

// malloc() takes memory from the system in pieces of at least 1 MiB, so a piece of the reserve must
// be larger. The number of pieces is assumed: the largest allocation of a destructor that was seen
// is that of a JSON array of a million values, 16 MiB.
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr size_t kPieces = 6;
// The largest allocation that counts as small. Assumed: messages and containers of a few entries
// need less.
constexpr size_t kSmallBytes = size_t{64} << 10;
// How often a small allocation that failed is tried again, and the pause before. Other threads give
// memory back meanwhile: their requests end, or the reserve is filled again. Some functions of
// Boost.Asio that must not throw need a few bytes. Assumed.
constexpr int kRetries = 20;
constexpr auto kRetryPause = std::chrono::milliseconds(1);

std::array<std::atomic<void*>, kPieces> pieces;
std::atomic<size_t> failed_bytes = 0;
std::atomic<bool> has_begun = false;  // whether main() can catch an exception

// Gives the last piece from `first` on back to the system. Returns false if there is none. The
// function runs when memory is out, on any thread, so it neither allocates nor locks.
bool give_back_piece(size_t first) {
  for (size_t i = kPieces; i-- > first;) {
    if (void* const piece = pieces[i].exchange(nullptr)) return munmap(piece, kPieceBytes) == 0;
  }
  return false;
}

// Ends a program whose libraries have no memory for their global objects.
[[noreturn]] void end_before_main() {
  constexpr std::string_view kMessage = "neuronmm: out of memory while the program was loaded\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(1);
}

[[maybe_unused]] void* allocate(size_t size, size_t alignment) {
  const size_t bytes = size > 0 ? size : 1;
  for (int retries = kRetries;;) {
    void* const memory =
        alignment > 0
            ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
            : std::malloc(bytes);
    if (memory != nullptr) return memory;
    failed_bytes.store(size, std::memory_order_relaxed);
    if (!has_begun) end_before_main();
    const bool unwinds = std::uncaught_exceptions() > 0;
    const size_t first = unwinds ? 0 : kPieces / 2;
    const bool allowed = unwinds || size <= kSmallBytes;
    if (!allowed) throw std::bad_alloc();
    if (give_back_piece(first)) continue;
    if (retries-- == 0) throw std::bad_alloc();
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace

// Pieces are mapped one by one, so that a low limit leaves room for some of them.
void fill_memory_reserve() {
  has_begun = true;
#ifndef NEURONMM_SANITIZED
  for (std::atomic<void*>& piece : pieces) {
    if (piece.load() != nullptr) continue;
    void* const memory = mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    piece.store(memory);
  }
#endif
}

int64_t memory_reserve_bytes() {
#ifdef NEURONMM_SANITIZED
  return 0;
#else
  return static_cast<int64_t>(kPieces * kPieceBytes);
#endif
}

size_t last_failed_allocation() { return failed_bytes.load(std::memory_order_relaxed); }

}  // namespace neuronmm::apps

#ifndef NEURONMM_SANITIZED
// The other forms of new call these two, and all forms of delete call free().
void* operator new(size_t size) { return neuronmm::apps::allocate(size, 0); }
void* operator new(size_t size, std::align_val_t alignment) {
  return neuronmm::apps::allocate(size, static_cast<size_t>(alignment));
}
#endif
