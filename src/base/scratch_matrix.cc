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

// Blocks that are free. A forward pass has fewer than kMostBlocks matrices at a time. Larger blocks
// than kLargestBlock are not kept: one pass over a long text should not hold their memory for ever.
class Pool {
 public:
  // Returns the smallest block that has at least this many bytes and at most twice as many.
  Block take(int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      auto best = free_.end();
      for (auto block = free_.begin(); block != free_.end(); ++block) {
        if (block->bytes < bytes || block->bytes > 2 * bytes) continue;
        if (best == free_.end() || block->bytes < best->bytes) best = block;
      }
      if (best != free_.end()) {
        const Block block = *best;
        free_.erase(best);
        return block;
      }
    }
    return map(bytes);
  }

  void give_back(const Block& block) {
    if (block.bytes <= kLargestBlock) {
      const std::lock_guard lock(mutex_);
      if (free_.size() < kMostBlocks) return free_.push_back(block);
    }
    munmap(block.memory, static_cast<size_t>(block.bytes));
  }

  static Pool& instance() {
    static Pool* const pool = new Pool;  // threads may outlive static objects
    return *pool;
  }

 private:
  static constexpr size_t kMostBlocks = 16;
  static constexpr int64_t kLargestBlock = int64_t{64} << 20;

  Pool() { free_.reserve(kMostBlocks); }

  // Maps more than is wanted and unmaps what lies before and after aligned memory.
  static Block map(int64_t bytes) {
    const auto wanted = static_cast<size_t>(bytes), unit = static_cast<size_t>(kHugePage);
    void* const mapped =
        mmap(nullptr, wanted + unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    const size_t before = unit - reinterpret_cast<uintptr_t>(mapped) % unit;
    auto* const memory = static_cast<std::byte*>(mapped) + before;
    munmap(mapped, before);
    if (before < unit) munmap(memory + wanted, unit - before);
#ifdef MADV_HUGEPAGE
    madvise(memory, wanted, MADV_HUGEPAGE);
#endif
    return {memory, bytes};
  }

  std::mutex mutex_;
  std::vector<Block> free_;
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
