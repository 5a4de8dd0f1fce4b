#pragma once
// Grow-only memory for packed weights, caches and scratch: uninitialised and aligned to a cache
// line, so that a 512-bit load never touches two.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include <sys/mman.h>

namespace neuronmm::cpu {

enum class Pages { kDefault, kHuge };

template <typename T>
class Buffer {
  static_assert(std::is_trivial_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t count, Pages pages = Pages::kDefault) { allocate(count, pages); }

  T* data() const { return memory_.get(); }
  // At least `count` elements; what they held is lost when that takes more memory.
  T* reserve(int64_t count) {
    if (count > capacity_) allocate(count, Pages::kDefault);
    return data();
  }

 private:
  static constexpr size_t kCacheLine = 64;
  static constexpr size_t kPage = size_t{64} << 10;     // a system's page, or a multiple of it
  static constexpr size_t kHugePage = size_t{2} << 20;  // x86-64 and arm64 with 4 KiB pages

  // Memory that is read end to end for every token wants huge pages: fewer TLB misses. A part of
  // one, at the end or alone, would only waste memory.
  void allocate(int64_t count, Pages pages) {
    const size_t wanted = static_cast<size_t>(count) * sizeof(T);
    const bool huge = pages == Pages::kHuge && wanted >= kHugePage;
    const size_t unit = huge ? kPage : kCacheLine;
    const size_t bytes = (wanted + unit - 1) / unit * unit;
    memory_.reset();
    capacity_ = 0;
    void* memory = huge ? map_huge(bytes) : std::aligned_alloc(kCacheLine, bytes);
    if (memory == nullptr && bytes > 0) throw std::bad_alloc();
    memory_ = {static_cast<T*>(memory), Free{huge ? bytes : 0}};
    capacity_ = count;
  }

  // Mapped by itself: malloc has a header in front of what it aligns, so that of two megabytes
  // behind one another each would take four of the process's address space, which limits count.
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
    size_t mapped = 0;  // bytes; 0: it is malloc's
    void operator()(T* memory) const {
      mapped > 0 ? void(munmap(memory, mapped)) : std::free(memory);
    }
  };
  std::unique_ptr<T[], Free> memory_;
  int64_t capacity_ = 0;
};

}  // namespace neuronmm::cpu
