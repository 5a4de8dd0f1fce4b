#pragma once
// Memory for packed weights, caches and scratch. It only grows, is not initialised, and is aligned
// to a cache line, so that a 512-bit load never touches two lines. Throws std::bad_alloc if there
// is no memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <sys/mman.h>

namespace neuronmm::cpu {

enum class Pages { kDefault, kHuge };

template <typename T>
class Buffer {
  static_assert(std::is_trivial_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t count, Pages pages = Pages::kDefault) { allocate(count, pages); }

  // Takes a part of memory that `owner` keeps.
  Buffer(T* memory, int64_t count, std::shared_ptr<const void> owner)
      : memory_(memory, Free{0, std::move(owner)}), capacity_(count) {}

  T* data() const { return memory_.get(); }
  // Returns memory for at least `count` elements. If more memory is needed than before, the old
  // elements are lost.
  T* reserve(int64_t count) {
    if (count > capacity_) allocate(count, Pages::kHuge);
    return data();
  }

 private:
  static constexpr size_t kCacheLine = 64;
  static constexpr size_t kPage = size_t{64} << 10;  // the system's page size, or a multiple of it
  static constexpr size_t kHugePage = size_t{2} << 20;  // x86-64 and arm64 with 4 KiB pages

  // Memory that is read completely for every token benefits from huge pages, which cause fewer TLB
  // misses. So do activations, whose rows are far apart: measured on a virtual machine with AMX,
  // products of 512 rows take up to a third less time. A huge page at the end that is only partly
  // used would waste memory.
  void allocate(int64_t count, Pages pages) {
    const size_t wanted = static_cast<size_t>(count) * sizeof(T);
    const bool huge = pages == Pages::kHuge && wanted >= kHugePage;
    const size_t unit = huge ? kPage : kCacheLine;
    const size_t bytes = (wanted + unit - 1) / unit * unit;
    memory_.reset();
    capacity_ = 0;
    void* memory = huge ? map_huge(bytes) : std::aligned_alloc(kCacheLine, bytes);
    if (memory == nullptr && bytes > 0) throw std::bad_alloc();
    memory_ = {static_cast<T*>(memory), Free{huge ? bytes : 0, nullptr}};
    capacity_ = count;
  }

  // Maps the memory directly. malloc puts a header before aligned memory, so that every 2 MiB would
  // take 4 MiB of the process's address space, which resource limits count.
  static void* map_huge(size_t bytes) {
    const size_t all = bytes + kHugePage;
    void* mapped = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    const size_t before = kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage;
    auto* const memory = static_cast<std::byte*>(mapped) + before;
    munmap(mapped, before);
    if (before < kHugePage) munmap(memory + bytes, kHugePage - before);
    madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return memory;
  }

  struct Free {
    size_t mapped = 0;                  // bytes that were mapped, or 0 for malloc's memory
    std::shared_ptr<const void> owner;  // of a part, which is not freed by itself
    void operator()(T* memory) const {
      if (owner == nullptr) mapped > 0 ? void(munmap(memory, mapped)) : std::free(memory);
    }
  };
  std::unique_ptr<T[], Free> memory_;
  int64_t capacity_ = 0;
};

// Memory in huge pages for many buffers that are smaller than such a page, such as the weights of
// experts. Measured on an Intel CPU with AMX: in pages of 4 KiB, experts of 0.9 MiB are read a
// sixth slower. A piece of memory lives until no buffer has a part of it.
class Arena {
 public:
  // Makes pieces of this many bytes, or larger ones for larger buffers. The default is assumed: few
  // layers' experts fill such a piece, and what the last one leaves unused is never touched.
  explicit Arena(int64_t piece_bytes = int64_t{32} << 20) : piece_bytes_(piece_bytes) {}

  // Returns how many bytes all buffers have taken.
  int64_t taken_bytes() const { return taken_; }
  template <typename T>
  Buffer<T> take(int64_t count) {
    constexpr int64_t kLine = 64;
    const int64_t bytes = (count * static_cast<int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
    if (bytes > size_ - used_) {
      const int64_t size = std::max(bytes, piece_bytes_);
      piece_ = std::make_shared<const Buffer<std::byte>>(size, Pages::kHuge);  // may throw
      size_ = size;
      used_ = 0;
    }
    taken_ += bytes;
    std::byte* const part = piece_->data() + std::exchange(used_, used_ + bytes);
    return {reinterpret_cast<T*>(part), count, piece_};
  }

 private:
  const int64_t piece_bytes_;
  std::shared_ptr<const Buffer<std::byte>> piece_;
  int64_t size_ = 0, used_ = 0;  // bytes of the last piece
  int64_t taken_ = 0;
};

}  // namespace neuronmm::cpu
