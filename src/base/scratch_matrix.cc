#include "base/scratch_matrix.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace neuronmm {
namespace {

constexpr size_t kLine = 64;
constexpr int64_t kPooled = int64_t{256} << 10;  // smaller matrices are cheap to allocate
constexpr int64_t kHugePage = int64_t{2} << 20;  // x86-64 and arm64 with 4 KiB pages

struct Block {
  void* memory;
  int64_t bytes;  // a multiple of kHugePage
};

// Blocks in use and blocks that are free. Together they never have more bytes than were in use at
// once. Larger blocks than kLargestBlock are not kept: one pass over a long text should not hold
// their memory for ever.
class Pool {
 public:
  // Returns the smallest free block that has at least this many bytes and at most twice as many, or
  // a new one.
  Block take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      if (block->bytes < bytes || block->bytes > 2 * bytes) continue;
      if (best == free_.end() || block->bytes < best->bytes) best = block;
    }
    Block block = {nullptr, bytes};
    if (best != free_.end()) {
      block = *best;
      free_.erase(best);
      free_bytes_ -= block.bytes;
    } else {
      most_in_use_ = std::max(most_in_use_, in_use_ + bytes);
      drop_until(most_in_use_ - in_use_ - bytes);
      block.memory = map(bytes);
      if (block.memory == nullptr) {
        drop_until(0);
        block.memory = map(bytes);
      }
      if (block.memory == nullptr) throw std::bad_alloc();
    }
    in_use_ += block.bytes;
    return block;
  }

  void give_back(const Block& block) {
    const std::lock_guard lock(mutex_);
    in_use_ -= block.bytes;
    if (block.bytes <= kLargestBlock && free_.size() < kMostBlocks) {
      free_.push_back(block);
      free_bytes_ += block.bytes;
    } else {
      munmap(block.memory, static_cast<size_t>(block.bytes));
    }
  }

  static Pool& instance() {
    static Pool* const pool = new Pool;  // threads may outlive static objects
    return *pool;
  }

 private:
  static constexpr size_t kMostBlocks = 16;  // more than a forward pass has at a time
  static constexpr int64_t kLargestBlock = int64_t{64} << 20;

  Pool() { free_.reserve(kMostBlocks); }

  // Returns free blocks to the system until at most this many bytes are free.
  void drop_until(int64_t bytes) {
    while (!free_.empty() && free_bytes_ > bytes) {
      munmap(free_.front().memory, static_cast<size_t>(free_.front().bytes));
      free_bytes_ -= free_.front().bytes;
      free_.erase(free_.begin());
    }
  }

  // Maps more than is wanted and unmaps what lies before and after aligned memory. Returns null if
  // there is no memory.
  static void* map(int64_t bytes) {
    const auto wanted = static_cast<size_t>(bytes), unit = static_cast<size_t>(kHugePage);
    void* const mapped =
        mmap(nullptr, wanted + unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    const size_t before = unit - reinterpret_cast<uintptr_t>(mapped) % unit;
    auto* const memory = static_cast<std::byte*>(mapped) + before;
    munmap(mapped, before);
    if (before < unit) munmap(memory + wanted, unit - before);
#ifdef MADV_HUGEPAGE
    madvise(memory, wanted, MADV_HUGEPAGE);
#endif
    return memory;
  }

  std::mutex mutex_;
  std::vector<Block> free_;
  int64_t free_bytes_ = 0, in_use_ = 0, most_in_use_ = 0;
};

}  // namespace

ScratchMatrix::ScratchMatrix(int64_t rows, int64_t columns) {
  const int64_t bytes = rows * columns * static_cast<int64_t>(sizeof(float));
  void* memory = nullptr;
  if (bytes >= kPooled) {
    const Block block = Pool::instance().take((bytes + kHugePage - 1) / kHugePage * kHugePage);
    memory = block.memory;
    pooled_bytes_ = block.bytes;
  } else {
    const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    memory = std::aligned_alloc(kLine, (size + kLine - 1) / kLine * kLine);
    if (memory == nullptr) throw std::bad_alloc();
  }
  view_ = {static_cast<float*>(memory), rows, columns};
}

ScratchMatrix::~ScratchMatrix() {
  if (pooled_bytes_ > 0) {
    Pool::instance().give_back({view_.data, pooled_bytes_});
  } else {
    std::free(view_.data);
  }
}

}  // namespace neuronmm
